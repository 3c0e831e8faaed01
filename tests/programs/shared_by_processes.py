"""Ranks that share locks and barriers of multiprocessing's: one waits in what SHARED_WAY names, or is waited for there.

The others are in the world's all_reduce, unless said otherwise.
"""

import multiprocessing
import multiprocessing.context
import os
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier, Condition, Event, Lock, Semaphore
from typing import NamedTuple

import rig
import torch.multiprocessing

TRUTH = {"launch": "spawn", "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "wait_for_others"}


class Shared(NamedTuple):
    """What the launcher makes and hands to all ranks."""

    barrier: Barrier
    condition: Condition
    event: Event
    lock: Lock
    slots: Semaphore


def barrier(shared: Shared) -> None:
    """Meet the others where they do not come: they are in a collective."""
    shared.barrier.wait()


def condition(shared: Shared) -> None:
    """Wait to be notified by nobody."""
    with shared.condition:
        shared.condition.wait()


def event(shared: Shared) -> None:
    """Wait for what nobody sets."""
    shared.event.wait()


def slots(shared: Shared) -> None:
    """Take a slot that nobody gives back."""
    shared.slots.acquire()


def lock_twice(shared: Shared) -> None:
    """Take a lock that it has."""
    shared.lock.acquire()
    with shared.lock:
        pass


def lock_of_the_dead(shared: Shared) -> None:
    """Wait for a lock with which a process has died."""
    if (child := os.fork()) == 0:
        shared.lock.acquire()
        os._exit(1)
    os.waitpid(child, 0)
    with shared.lock:
        pass


def sleep(shared: Shared) -> None:
    """Do not come to the barrier at which all others wait."""
    rig.fetch_batch()


def skip(shared: Shared) -> None:
    """Leave out the barrier at which all others wait."""


def keep_lock(shared: Shared) -> None:
    """Keep the lock that all others want over a collective."""
    shared.lock.acquire()


def meet(shared: Shared) -> None:
    """Wait for all ranks of the node."""
    shared.barrier.wait()


def want_lock(shared: Shared) -> None:
    """Take turns."""
    with shared.lock:
        pass


WAYS: dict[str, tuple[Callable[[Shared], None], Callable[[Shared], None] | None]] = {
    "barrier": (barrier, None),
    "condition": (condition, None),
    "event": (event, None),
    "slots": (slots, None),
    "lock_twice": (lock_twice, None),
    "lock_of_the_dead": (lock_of_the_dead, None),
    "sleep": (sleep, meet),
    "skip": (skip, meet),
    "keep_lock": (keep_lock, want_lock),
}
"""By name: what the faulty rank does at the faulty step, and what the others do."""


def work(rank: int, world_size: int, shared: Shared) -> None:
    """Be one rank."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    place = rig.start()
    of_faulty, of_others = WAYS[os.environ.get("SHARED_WAY", "barrier")]
    here = of_faulty if place.is_faulty else of_others
    rig.train(place, lambda: here and here(shared), astray=here is not None)


def main() -> None:
    """Start as many ranks as the command line says."""
    world_size = int(sys.argv[1])
    make = multiprocessing.get_context("spawn")
    shared = Shared(make.Barrier(world_size), make.Condition(), make.Event(), make.Lock(), make.Semaphore(0))
    torch.multiprocessing.spawn(work, args=(world_size, shared), nprocs=world_size)


if __name__ == "__main__":
    main()
