"""Ranks accumulate gradients with `no_sync`, and rank 0 has many more batches; the others wait in backward."""

import contextlib
import time

import ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def accumulate(model: DistributedDataParallel, deadline: float) -> None:
    """Go back without the others until the deadline, and then once with them."""
    is_last = False
    while not is_last:
        is_last = not ranks.before(deadline)
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(torch.randn(16, 64)).sum().backward()
            time.sleep(0.1)


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    for _ in range(5):
        model(torch.randn(16, 64)).sum().backward()
    has_more = dist.get_rank() == 0
    if has_more:
        ranks.say_waiting()
    accumulate(model, time.monotonic() + (ranks.SECONDS if has_more else 0.0))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
