"""Reads the stacks of a process that goes on meanwhile, and keeps only what is certain of them.

Stopping a process ends the system calls that it is blocked in: a `write` to a full pipe returns a part, `epoll_wait` an
error, and a hang may be gone with it. So nothing is stopped, and this is what a reading is worth:

1. A thread that has not run since before the reading, by its state and its context switches, is where the reading
   says.
2. One that has run may have been read at two moments: everything is read again. Where both readings are equal it is
   there, too: a loop that sleeps and looks again, or C code that computes.
3. Of one that was read in two places, only the outer frames are kept in which both readings agree, and it is said that
   it moves.

Python before 3.11 does not say which kernel thread is which; but the main thread's is known: it has the process's
number.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from agent.errors import Gone, Unavailable
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from shared.wire.stacks import Frame, Stacks, StackTable, Thread

_MOST_READINGS = 2
_MOST_FAILURES = 2
"""py-spy gives up about one reading in a hundred of a process that runs: what it follows has changed meanwhile."""
_MOST_THREADS = 4096
_SLEEPING = "SDTtI"


class _Mark(NamedTuple):
    """Whether a thread sleeps, how often it gave its processor up, and how often that was taken from it."""

    asleep: bool
    voluntary: int
    involuntary: int


class _Reading(NamedTuple):
    """One reading, and the threads that did not run while it was taken."""

    stacks: Stacks
    still: frozenset[int]


def read_unpaused(procfs: ProcFs, pid: int, read: Callable[[], Stacks]) -> Stacks:
    """Return what `read` reads, as far as it is certain. Raises what `read` raises, and Gone."""
    readings: list[_Reading] = []
    failures = 0
    while len(readings) < _MOST_READINGS:
        before = _marks(procfs, pid)
        try:
            stacks = read()
        except Unavailable as error:
            failures += 1
            if error.reason is Reason.UNREADABLE and failures <= _MOST_FAILURES:
                continue
            if readings:
                break
            raise
        after = _marks(procfs, pid)
        still = frozenset(tid for tid, mark in before.items() if mark.asleep and after.get(tid) == mark)
        readings.append(_Reading(_with_marks(stacks, pid, after), still))
        if all(thread.tid in still for thread in readings[-1].stacks.threads):
            break
    return agreed(readings)


def _marks(procfs: ProcFs, pid: int) -> Mapping[int, _Mark]:
    """Return of each thread whether it sleeps, and how often it was switched out before: one that ran, once more.

    Raises Gone where the process has ended.
    """
    found = {}
    for tid in procfs.tids(pid)[:_MOST_THREADS]:
        try:
            status = procfs.fields(pid, f"task/{tid}/status")
            counts = int(status["voluntary_ctxt_switches"]), int(status["nonvoluntary_ctxt_switches"])
            found[tid] = _Mark(status["State"][:1] in _SLEEPING, *counts)
        except (Gone, KeyError, ValueError):
            continue
    return found


def _with_marks(stacks: Stacks, pid: int, marks: Mapping[int, _Mark]) -> Stacks:
    """Add the main thread's id, where it is not told, and how often each has gone to sleep."""
    main = stacks.main
    threads = []
    for thread in stacks.threads:
        tid = pid if thread is main and thread.tid is None else thread.tid
        mark = None if tid is None else marks.get(tid)
        threads.append(thread.model_copy(update={"tid": tid, "switches": None if mark is None else mark.voluntary}))
    return stacks.model_copy(update={"threads": tuple(threads)})


def agreed(readings: Iterable[_Reading]) -> Stacks:
    """Return the threads of the last reading, each as far as it is certain where it is."""
    *earlier, last = readings
    table = StackTable()
    threads = []
    for thread in last.stacks.threads:
        certain, frames = _certain(thread, last, earlier)
        threads.append(certain.model_copy(update={"frames": tuple(map(table.add, frames))}))
    return last.stacks.model_copy(update={"frames": table.frames, "threads": tuple(threads)})


def _certain(thread: Thread, last: _Reading, earlier: Iterable[_Reading]) -> tuple[Thread, tuple[Frame, ...]]:
    frames = last.stacks.stack(thread)
    if thread.tid in last.still:  # 1
        return thread, frames
    ran = thread.model_copy(update={"active": None})
    common: tuple[Frame, ...] = ()
    for reading in earlier:
        same = next((t for t in reading.stacks.threads if (t.tid, t.name) == (thread.tid, thread.name)), None)
        if same is None:
            continue
        if same.tid in reading.still:
            return same, reading.stacks.stack(same)
        common = _common(reading.stacks.stack(same), frames)
    if common and common == frames:  # 2
        return ran, frames
    return ran.model_copy(update={"moves": True}), common  # 3


def _common(earlier: tuple[Frame, ...], later: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the outer frames in which two readings agree; below one whose line has changed nothing is sure."""
    kept = []
    for before, after in zip(earlier, later, strict=False):
        if before[:2] != after[:2]:
            break
        kept.append(after)
        if before != after:
            break
    return tuple(kept)
