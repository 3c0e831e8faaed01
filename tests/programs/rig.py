"""What every program here shares: its groups, its faulty rank, and the word to the test that the hang is near.

Nothing of this file is on the stack while a program hangs, so the stacks look like a user's own.
"""

import os
import signal
from dataclasses import dataclass

import torch.distributed as dist

FAULTY_RANK = int(os.environ.get("FAULTY_RANK", "2"))
"""The rank that goes astray, in the programs where exactly one does."""

FAULTY_STEP = 3
"""The step at which it does so: the groups have then a history that agrees."""

LIFETIME_SECONDS = int(os.environ.get("UNHANG_TEST_LIFETIME", "900"))
"""A process of a test job ends itself after this time, should the test that started it be gone."""


@dataclass(frozen=True)
class Place:
    """Where a rank stands: its number, the size of the world and its tensor pair."""

    rank: int
    world_size: int
    pair: dist.ProcessGroup

    @property
    def is_faulty(self) -> bool:
        """Is this the rank that goes astray?"""
        return self.rank == FAULTY_RANK


def start() -> Place:
    """Join the world and make the tensor pairs `tp0`, `tp1`, ... of neighbouring ranks."""
    signal.alarm(LIFETIME_SECONDS)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    pairs = [
        dist.new_group([first, first + 1], group_desc=f"tp{first // 2}") for first in range(0, world_size - 1, 2)
    ]
    return Place(rank, world_size, pairs[rank // 2])


def say_ready(who: str) -> None:
    """Tell the test, by one line on the pipe `UNHANG_TEST_READY`, that `who` is about to reach its last place."""
    path = os.environ.get("UNHANG_TEST_READY")
    if path is None:
        return
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, f"{who} {os.getpid()}\n".encode())
    finally:
        os.close(pipe)
