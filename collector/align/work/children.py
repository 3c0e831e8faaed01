"""Those whom a rank has started and waits for, as they are in one look."""

import re
from collections.abc import Iterator, Mapping

from collector.align.stacks.process_text import is_held
from collector.align.thresholds import MOMENT_SECONDS
from collector.align.work.carried import syscall_of
from collector.align.work.values import Work
from shared.answer.words import WorkMeans
from shared.units import seconds_in_words
from shared.wire.snapshot import Fds, Process, RankSnapshot

_DEEPEST = 4
"""Generations: a shell's child, and what that has started in turn."""
# python -c from multiprocessing.resource_tracker import main;main(9)
_HELPERS = re.compile(r"multiprocessing\.(resource_tracker|forkserver)")


def is_helper(process: Process) -> bool:
    """Is it one that multiprocessing has started for itself? Nobody waits for those."""
    return _HELPERS.search(process.command) is not None


def named(process: Process) -> str:
    """Name a child."""
    return f"{process.pid} ({process.name})"


def pipe_holders(look: RankSnapshot) -> frozenset[int]:
    """Return who holds the other end of the pipe that a rank reads or writes; empty: it is at none."""
    syscall = syscall_of(look)
    if syscall is None or not isinstance(look.fds, Fds):
        return frozenset()
    return frozenset(pid for pipe in look.fds.pipes if pipe.fd == syscall.fd for pid in pipe.other_end)


def asleep_below(look: RankSnapshot) -> Iterator[Work]:
    """Say of whom the rank waits for that it sleeps, or something that it has started: it goes on after that.

    Those are all its children, or those at the other end of its pipe. Where one does not sleep, it may wait for that.
    """
    children = {child.process.pid: child.process for child in look.children}
    at_pipe = pipe_holders(look)
    own = look.identity.pid
    awaited = [
        child
        for child in children.values()
        if (child.pid in at_pipe if at_pipe else child.parent_pid == own) and not is_helper(child)
    ]
    sleeping = [(left, child) for child in awaited if (left := _sleeps_for(child, children)) is not None]
    if awaited and len(sleeping) == len(awaited):
        left, child = max(sleeping, key=lambda each: each[0])
        what = f"sleeps for {seconds_in_words(left)} more" if left > MOMENT_SECONDS else "sleeps for moments"
        yield Work(WorkMeans.SLEEP, f"waits for its child {named(child)}, which {what}", named(child), 0.0, left)


def _sleeps_for(process: Process, children: Mapping[int, Process], depth: int = _DEEPEST) -> float | None:
    """For how long a child sleeps, or the one that it waits for in turn; None: not known, or not asleep."""
    if process.state in "tZ" or is_held(process) or depth == 0:
        return None
    call = process.syscall
    if call is not None and call.name != "futex" and call.ends_in_seconds is not None:
        return call.ends_in_seconds
    below = [_sleeps_for(child, children, depth - 1) for child in children.values() if child.parent_pid == process.pid]
    known = [left for left in below if left is not None]
    return max(known) if known and len(known) == len(below) else None
