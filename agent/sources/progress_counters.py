"""A beat: the cheap counters of one process that move when it makes progress."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress

from agent.errors import Gone
from agent.proc.procfs import FEW_THREADS, ProcFs, Stat
from shared.errors import NotPermitted
from shared.wire.snapshot import Beat

_SETTLING_SECONDS = 0.004
_MOST_SETTLING = 8
_AT_WORK = 0.1
"""Share of a CPU that what a process has started must use for it to count as at work: monitors use a few per cent."""
_SPINS = re.compile(r"TP_(SHM|IBV)_reactor|NCCL Progress")
"""Names of threads that ask again and again whether something has come and never sleep meanwhile: TensorPipe's, which
carries remote procedure calls, and NCCL's for a network."""


def take_beat(procfs: ProcFs, pid: int, *, children: Sequence[int] = (), log_bytes: int | None = None) -> Beat:
    """Read the counters of process `pid` now; `children` are all that it has started, down the tree. Raises Gone."""
    beat = _own_beat(procfs, pid, log_bytes)
    return beat.model_copy(update={"children_cpu_seconds": _children_cpu_seconds(procfs, pid, children)})


def without_spinners(beat: Beat, procfs: ProcFs, pid: int) -> Beat:
    """Take from a beat that was read just now what threads have used that only wait. Raises Gone."""
    threads = (_stat(procfs, pid, tid) for tid in procfs.tids(pid, FEW_THREADS))
    spent = sum(stat.cpu_seconds for stat in threads if stat is not None and _SPINS.match(stat.name))
    return beat.model_copy(update={"cpu_seconds": beat.cpu_seconds - spent}) if spent else beat


def _stat(procfs: ProcFs, pid: int, tid: int) -> Stat | None:
    with suppress(Gone, NotPermitted):
        return procfs.stat(pid, tid)
    return None


def take_settled_beat(procfs: ProcFs, pid: int, *, children: Sequence[int] = (), log_bytes: int | None = None) -> Beat:
    """Read the counters once the process has come to rest after our look at it, or has gone on working.

    A thread that we stopped inside a system call, for native frames, wakes up and goes back to sleep after we let it
    go, which counts as a switch. One that switches still after a while does so on its own.
    """
    beat = _own_beat(procfs, pid, log_bytes)
    for _ in range(_MOST_SETTLING):
        time.sleep(_SETTLING_SECONDS)
        earlier, beat = beat, _own_beat(procfs, pid, log_bytes)
        if beat.main_switches == earlier.main_switches:
            break
    beat = without_spinners(beat, procfs, pid)
    return beat.model_copy(update={"children_cpu_seconds": _children_cpu_seconds(procfs, pid, children)})


def _own_beat(procfs: ProcFs, pid: int, log_bytes: int | None) -> Beat:
    at_ns = time.time_ns()
    return Beat(
        at_ns=at_ns,
        cpu_seconds=procfs.stat(pid).cpu_seconds,
        main_cpu_seconds=_main_cpu_seconds(procfs, pid),
        main_switches=_main_switches(procfs, pid),
        io_bytes=_io_bytes(procfs, pid),
        log_bytes=log_bytes,
    )


def has_moved(before: Beat, after: Beat, *, waits: bool = False) -> bool:
    """Did the process do anything that counts as progress between two beats?

    A few switches alone do not count: a thread that waits with a timeout wakes up now and then. Of one that is known to
    wait (`waits`) neither these nor its own CPU time count: it may spin, or poll.
    """
    seconds = max(1.0, (after.at_ns - before.at_ns) / 1e9)
    switches = (after.main_switches or 0) - (before.main_switches or 0)
    written = (after.log_bytes or 0) != (before.log_bytes or 0)
    cpu = (after.main_cpu_seconds or 0.0) - (before.main_cpu_seconds or 0.0)
    below = (after.children_cpu_seconds or 0.0) - (before.children_cpu_seconds or 0.0)
    at_work = written or below / seconds > _AT_WORK
    return at_work or (not waits and (cpu / seconds > 0.01 or switches / seconds > 2))


def _children_cpu_seconds(procfs: ProcFs, pid: int, children: Sequence[int]) -> float:
    """Add up the time of all that a process has started, living or waited for.

    A compiler may start hundreds of short-lived processes: what they used is found with who waited for them.
    """
    total = procfs.stat(pid).waited_cpu_seconds
    for child in children:
        with suppress(Gone, NotPermitted):
            stat = procfs.stat(child)
            total += stat.cpu_seconds + stat.waited_cpu_seconds
    return total


def _main_cpu_seconds(procfs: ProcFs, pid: int) -> float | None:
    """Return nanosecond-exact time from schedstat, or the clock ticks of stat where that is switched off."""
    try:
        nanoseconds = procfs.read(pid, f"task/{pid}/schedstat").split()[0]
        return int(nanoseconds) / 1e9
    except (Gone, NotPermitted, IndexError, ValueError):
        return procfs.stat(pid, pid).cpu_seconds


def _main_switches(procfs: ProcFs, pid: int) -> int | None:
    for line in procfs.read(pid, f"task/{pid}/status").splitlines():
        if line.startswith(b"voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return None


def _io_bytes(procfs: ProcFs, pid: int) -> int | None:
    try:
        fields = procfs.fields(pid, "io")
        return int(fields["rchar"]) + int(fields["wchar"])
    except (Gone, NotPermitted, KeyError, ValueError):
        return None
