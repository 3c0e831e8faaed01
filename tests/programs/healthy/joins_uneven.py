"""Rank 0 has more batches than the others, which shadow its collectives in DDP's Join until it is done."""

import time

import ranks
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train on inputs of different lengths."""
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    rank = dist.get_rank()
    if rank == 0:
        ranks.say_waiting()
    with Join([model]):
        deadline = time.monotonic() + (ranks.SECONDS if rank == 0 else 3.0 + rank)
        while ranks.before(deadline):
            model(torch.randn(16, 64)).sum().backward()
            time.sleep(1.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
