"""PyTorch Ignite starts its own ranks: `idist.Parallel` spawns them, with no RANK in their environment."""

import sys

import ignite.distributed as idist
import torch
from quota import reach_last_step


def training(local_rank: int) -> None:
    """Train; Ignite gives each process its rank on the node."""
    for step in range(5):
        if step == 3:
            reach_last_step(idist.get_rank())
        idist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    with idist.Parallel(backend="gloo", nproc_per_node=2, master_port=int(sys.argv[1])) as parallel:
        parallel.run(training)
