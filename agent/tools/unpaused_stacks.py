"""Reads the stacks of a process that goes on meanwhile, and keeps only what is certain of them.

Stopping a process ends the system calls that it is blocked in: a `write` to a full pipe returns a part, `epoll_wait` an
error, and a hang may be gone with it. So nothing is stopped, and this is what a reading is worth:

1. A thread that has not run since before the reading, by its state and its context switches, is where the reading
   says.
2. One that has run may have been read at two moments: everything is read again. Where three readings are equal it is
   there, too: a loop that sleeps and looks again, or C code that computes. Readings between which it got no processor,
   by its time on one, are the same moment twice, and count as one: who waits for a processor between two frames would
   be read there again and again, torn in the same way.
3. Of any other only the outer frames are kept in which all readings agree, and it is said that it moves: they are a
   sample of a thread that runs, and no evidence that it is held there.

A program that calls all the time and the same is read wrong one time in ten, and one time in thirty the same way again:
two such readings in a row were one look in three hundred, three are one in ten thousand.

Python before 3.11 does not say which kernel thread is which; but the main thread's is known: it has the process's
number.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.errors import Gone, Unavailable
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from shared.wire.stacks import Frame, Stacks, StackTable, Thread

_AGREEING = 3
"""Readings, at different moments, that make certain where a thread is that runs."""
_MOST_READINGS = 4
_MOST_FAILURES = 6
"""py-spy gives up one reading in four of a process that calls all the time: what it follows has changed meanwhile."""
_MOMENT_SECONDS = 0.01
_SLEEPING = "SDTtI"


class _Mark(NamedTuple):
    """Whether a thread sleeps, how often it gave its processor up, how often that was taken from it, and its use."""

    asleep: bool
    voluntary: int
    involuntary: int
    use: str
    """Of one that does not sleep: nanoseconds on a processor and in line for one, and times that it got one."""


class _Reading(NamedTuple):
    """One reading, the threads that did not run while it was taken, and how far each had run by then."""

    stacks: Stacks
    still: frozenset[int]
    after: Mapping[int, _Mark] = {}


def read_unpaused(procfs: ProcFs, pid: int, read: Callable[[], Stacks]) -> Stacks:
    """Return what `read` reads, as far as it is certain. Raises what `read` raises, and Gone."""
    readings: list[_Reading] = []
    failures = 0
    while len(readings) < _MOST_READINGS:
        if readings or failures:
            time.sleep(_MOMENT_SECONDS)
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
        readings.append(_Reading(_with_marks(stacks, pid, after), still, after))
        if _is_settled(readings):
            break
    return agreed(readings)


def _is_settled(readings: Sequence[_Reading]) -> bool:
    """Is each thread certain where it is, or would another reading tell no more than that it moves?"""
    *earlier, last = readings
    doubtful = [t for t in last.stacks.threads if t.tid not in last.still and _certain(t, last, earlier)[0].moves]
    return not doubtful or (len(readings) >= _AGREEING and any(_moves_on(thread, readings) for thread in doubtful))


def _moves_on(thread: Thread, readings: Sequence[_Reading]) -> bool:
    """Was it read in different places, or in none?"""
    found = {one.stacks.stack(same) for one in readings if (same := _same(thread, one)) is not None}
    return len(found) > 1 or () in found


def _marks(procfs: ProcFs, pid: int) -> Mapping[int, _Mark]:
    """Return of each thread whether it sleeps, and how often it was switched out before: one that ran, once more.

    Raises Gone where the process has ended.
    """
    found = {}
    for tid in procfs.tids(pid):
        try:
            status = procfs.fields(pid, f"task/{tid}/status")
            counts = int(status["voluntary_ctxt_switches"]), int(status["nonvoluntary_ctxt_switches"])
            asleep = status["State"][:1] in _SLEEPING
            found[tid] = _Mark(asleep, *counts, "" if asleep else procfs.text(pid, f"task/{tid}/schedstat"))
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
    common, moments = frames, [_moment(thread, last)]
    for reading in earlier:
        same = _same(thread, reading)
        if same is None:
            continue
        if same.tid in reading.still:
            return same, reading.stacks.stack(same)
        common = _common(reading.stacks.stack(same), common)
        moment = _moment(same, reading)
        moments += [moment] if moment is None or moment not in moments else []
    if len(moments) >= _AGREEING and common and common == frames:  # 2
        return ran, frames
    return ran.model_copy(update={"moves": True}), common if len(moments) > 1 else ()  # 3


def _same(thread: Thread, reading: _Reading) -> Thread | None:
    """Return the thread in another reading."""
    return next((t for t in reading.stacks.threads if (t.tid, t.name) == (thread.tid, thread.name)), None)


def _moment(thread: Thread, reading: _Reading) -> _Mark | None:
    """How far it had run by the end of a reading; None where Python does not say which thread of the kernel it is."""
    return None if thread.tid is None else reading.after.get(thread.tid)


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
