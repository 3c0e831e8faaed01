"""Rank 0 reads its data set from a child that fetches it, a record every two seconds; the others wait."""

import subprocess

import ranks

FETCH = 'while [ ! -e $1 ]; do echo "$(date) a record"; sleep 2; done'


def read_records(_: float) -> None:
    """Read line after line until the child ends."""
    with subprocess.Popen(["sh", "-c", FETCH, "fetch", str(ranks.ENOUGH)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert all(line.endswith("a record\n") for line in child.stdout)


if __name__ == "__main__":
    ranks.others_wait_while(read_records)
