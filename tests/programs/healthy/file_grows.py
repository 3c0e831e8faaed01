"""Rank 0 writes a cache of preprocessed samples, 8 MB/s as the disk allows; the others wait."""

import os
import time

import ranks


def write_cache(deadline: float) -> None:
    """Write, and begin again where a file has its size."""
    samples = os.urandom(ranks.MEBIBYTE)
    while ranks.before(deadline):
        with open(ranks.FOLDER / "cache.bin", "wb") as cache:
            while ranks.before(deadline) and cache.tell() < 400 * ranks.MEBIBYTE:
                cache.write(samples)
                cache.flush()
                time.sleep(1 / 8)


if __name__ == "__main__":
    ranks.others_wait_while(write_cache)
