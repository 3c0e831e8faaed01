"""What the programs here share: their groups, the faulty rank, a plain training loop, and the word to the test.

A test reads from a pipe when the ranks are about to reach their last places; run by hand, nothing is said.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

FAULTY_RANK = int(os.environ.get("FAULTY_RANK", "2"))
"""The rank that goes astray, in the programs where exactly one does, and any could."""

FAULTY_STEP = 3
"""The step at which it does so: the groups have then a history that agrees."""

LIFETIME_SECONDS = int(os.environ.get("UNHANG_TEST_LIFETIME", "900"))
"""A rank ends itself after this time, should the test that started it be gone."""

NEVER = 1e9
"""Seconds until what never happens."""

_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)


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
    rank, world_size = launched_as()
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    pairs = [dist.new_group([first, first + 1], group_desc=f"tp{first // 2}") for first in range(0, world_size - 1, 2)]
    return Place(rank, world_size, pairs[rank // 2])


def launched_as() -> tuple[int, int]:
    """Read this process's rank and the world's size from the variables of whichever launcher started it."""
    rank, world_size = next(names for names in _LAUNCHERS if names[0] in os.environ)
    return int(os.environ[rank]), int(os.environ[world_size])


def train(place: Place, go_astray: Callable[[], None]) -> None:
    """Train; at the faulty step the faulty rank goes astray between its pair's reduction and the world's."""
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == FAULTY_STEP:
            say_ready(f"rank {place.rank}")
            if place.is_faulty:
                go_astray()
        dist.all_reduce(gradients)


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
