"""Rank 0 reads a data set with O_DIRECT, past the page cache; the others wait."""

import mmap
import os

import ranks


def read_all(deadline: float) -> None:
    """Read a file of 64 MB from one end to the other, again and again."""
    path = ranks.FOLDER / "data.bin"
    path.write_bytes(os.urandom(64 * ranks.MEBIBYTE))
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    block, at = mmap.mmap(-1, ranks.MEBIBYTE), 0
    while ranks.before(deadline):
        at = at + ranks.MEBIBYTE if os.preadv(file, [block], at) else 0
    os.close(file)


if __name__ == "__main__":
    ranks.others_wait_while(read_all)
