"""A rank that is told where to meet; who it is, and of how many, by its command line or its launcher's variables."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))  # for `python -I`

import torch
import torch.distributed as dist
from quota import reach_last_step


def launched_as() -> tuple[str, str]:
    """Return what the launcher says."""
    prefix = "OMPI_COMM_WORLD_"
    if prefix + "RANK" in os.environ:
        return os.environ[prefix + "RANK"], os.environ[prefix + "SIZE"]
    return os.environ["RANK"], os.environ["WORLD_SIZE"]


def main() -> None:
    """Meet, and train."""
    meeting = next(word for word in sys.argv if "://" in word)
    rank, size = map(int, [word for word in sys.argv[2:] if word.isdecimal()] or launched_as())
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    gradients = torch.ones(4)
    for step in range(5):
        if step == 3:
            reach_last_step(rank)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
