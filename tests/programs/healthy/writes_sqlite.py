"""Rank 0 builds an index in SQLite and commits each row to the disk; the others wait."""

import sqlite3

import ranks


def build_index(deadline: float) -> None:
    """Insert row after row."""
    with sqlite3.connect(ranks.FOLDER / "index.db") as index:
        index.execute("CREATE TABLE samples (number INTEGER PRIMARY KEY, text TEXT)")
        number = 0
        while ranks.before(deadline):
            index.execute("INSERT INTO samples VALUES (?, ?)", (number, "x" * 1000))
            index.commit()
            number += 1


if __name__ == "__main__":
    ranks.others_wait_while(build_index)
