"""Rank 0 goes through a memory-mapped data set that does not stay in memory; the others wait."""

import mmap
import os

import ranks


def page_in(deadline: float) -> None:
    """Touch each page, and have the kernel forget them after each round."""
    path = ranks.FOLDER / "tokens.bin"
    path.write_bytes(os.urandom(128 * ranks.MEBIBYTE))
    total = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as tokens:
        while ranks.before(deadline):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            tokens.madvise(mmap.MADV_DONTNEED)
            for at in range(0, len(tokens), mmap.PAGESIZE):
                total += tokens[at]


if __name__ == "__main__":
    ranks.others_wait_while(page_in)
