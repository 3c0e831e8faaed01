"""What the programs here share: a job in which rank 0 works while the others wait for it, and that then ends well."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

SECONDS = float(os.environ.get("HEALTHY_SECONDS", "30"))
"""How long others wait at most: whoever looks says when it is enough, by a file of that name."""

FOLDER = Path(os.environ.get("HEALTHY_FOLDER", "."))
"""Where the programs may write."""

ENOUGH = FOLDER / "enough"

MEBIBYTE = 1 << 20


def others_wait_while(work: Callable[[float], object]) -> None:
    """Train; then rank 0 works until a deadline of the monotonic clock, and the others wait in their next step."""
    dist.init_process_group("gloo")
    train()
    if dist.get_rank() == 0:
        say_waiting()
        work(time.monotonic() + SECONDS)
    train()
    dist.destroy_process_group()


def train(steps: int = 5) -> None:
    """Take steps of 50 ms."""
    gradients = torch.ones(16)
    for _ in range(steps):
        time.sleep(0.05)
        dist.all_reduce(gradients)


def say_waiting() -> None:
    """Tell whoever started the job that from now on others wait."""
    print("the others wait", flush=True)


def before(deadline: float) -> bool:
    """Do the others have to wait on?"""
    return time.monotonic() < deadline and not ENOUGH.exists()
