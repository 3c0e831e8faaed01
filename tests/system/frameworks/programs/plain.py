"""A rank that is told where to meet, who it is and how many there are on its command line, or by MPI's variables."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))  # for `python -I`

import torch
import torch.distributed as dist
from quota import reach_last_step


def main() -> None:
    """Meet, and train."""
    meeting = sys.argv[1]
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    rank, size = map(int, sys.argv[2:] or (os.environ[name] for name in names))
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    gradients = torch.ones(4)
    for step in range(5):
        if step == 3:
            reach_last_step(rank)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
