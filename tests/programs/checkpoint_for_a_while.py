"""Nothing is wrong: all ranks write their part of a checkpoint to a slow disk, rank 0's part is the largest.

The others wait for it at a barrier, ten seconds each time. The disk is made slow by waiting after each piece.
"""

import os
import tempfile
import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"]}

PIECE_SECONDS = 0.5
PIECES = {0: 20}


def save_part(rank: int) -> None:
    """Write this rank's part, piece by piece."""
    with tempfile.TemporaryFile() as part:
        for _ in range(PIECES.get(rank, 2)):
            part.write(bytes(1 << 20))
            os.fsync(part.fileno())
            time.sleep(PIECE_SECONDS)


def main() -> None:
    """Train without end, and save after every third step."""
    place = rig.start()
    gradients = torch.ones(16)
    for step in rig.endless_steps(place):
        dist.all_reduce(gradients)
        if step % rig.FAULTY_STEP == 0:
            save_part(place.rank)
            dist.barrier()


if __name__ == "__main__":
    main()
