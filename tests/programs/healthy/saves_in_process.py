"""A process of rank 0 writes the last checkpoint, and rank 0 waits for it before it saves again; the others wait."""

import multiprocessing
import os
import time

import ranks


def write(deadline: float) -> None:
    """Write a checkpoint, piece by piece, each of them to the disk."""
    piece = os.urandom(ranks.MEBIBYTE)
    with open(ranks.FOLDER / "checkpoint.bin", "wb") as checkpoint:
        while ranks.before(deadline):
            checkpoint.seek(checkpoint.tell() % (200 * ranks.MEBIBYTE))
            checkpoint.write(piece)
            os.fsync(checkpoint.fileno())
            time.sleep(0.2)


def save(deadline: float) -> None:
    """Start the writer and join it."""
    writer = multiprocessing.get_context("fork").Process(target=write, args=(deadline,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0


if __name__ == "__main__":
    ranks.others_wait_while(save)
