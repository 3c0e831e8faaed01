"""As PyTorch's tutorial "Getting Started with Distributed Data Parallel" has it: `mp.spawn`, and no RANK anywhere."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from quota import reach_last_step
from torch.nn.parallel import DistributedDataParallel


def demo_basic(rank: int, world_size: int, port: str) -> None:
    """Train; the rank is an argument."""
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = DistributedDataParallel(torch.nn.Linear(10, 5))
    for step in range(5):
        if step == 3:
            reach_last_step(rank)
        model(torch.ones(20, 10)).sum().backward()


if __name__ == "__main__":
    mp.spawn(demo_basic, args=(2, sys.argv[1]), nprocs=2, join=True)
