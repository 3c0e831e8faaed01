"""What the counters of a process tell: did it work between two beats?

Beats stand before and after each look. What lies between two looks is nobody's doing but the process's own, and mostly
that is enough. On a busy machine a look takes seconds and the next follows at once: then what a process does while it
is looked at is nearly all that is seen of it. That counts, too, from a second on, but for what the look costs it:
reading native frames wakes its threads, and a question to a server inside it is answered by one of them.
"""

from collector.align.thresholds import (
    BUSY_BYTES,
    BUSY_CPU_SHARE,
    IDLE_SWITCHES_PER_SECOND,
    LEAST_CPU_SECONDS,
    LONG_LOOK_SECONDS,
    SPARE_SWITCHES,
)
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Process, RankSnapshot
from shared.wire.trace import Origin, Trace

Beats = tuple[Beat, Beat]
_ASKED = frozenset({Origin.WORKER_SERVER, Origin.DEBUG_SERVER})


def beats_between(a: Process | Missing, b: Process | Missing) -> Beats | None:
    """Return the last beat of a process in one look and its first in the next; None where they cannot be compared."""
    if not isinstance(a, Process) or not isinstance(b, Process) or a.after is None or b.before is None:
        return None
    return (a.after, b.before) if b.before.at_ns > a.after.at_ns else None


def beats_within(process: Process | Missing) -> Beats | None:
    """Return the beats before and after a look that took long enough to tell; None: it did not, or has not both."""
    if not isinstance(process, Process) or process.before is None or process.after is None:
        return None
    beats = process.before, process.after
    return beats if seconds_of(beats) >= LONG_LOOK_SECONDS else None


def seconds_of(beats: Beats | None) -> float:
    """Return how far apart two beats are; 0 without any."""
    return 0.0 if beats is None else (beats[1].at_ns - beats[0].at_ns) / 1e9


def at_work(beats: Beats | None, *, burns: bool = False) -> bool | None:
    """Did a process work between two beats? `burns`: its own CPU time is that of a wait."""
    return None if beats is None else _used_cpu(*beats, burns=burns) or moved_bytes(*beats)


def at_work_within(look: RankSnapshot, *, burns: bool) -> bool | None:
    """Did a rank work while it was looked at? Of one that was asked a question only its main thread tells."""
    beats, trace = beats_within(look.process), look.recorder
    asked = not _ASKED.isdisjoint(trace.origin) if isinstance(trace, Trace) else trace.reason is Reason.TIMED_OUT
    if beats is None or not asked:
        return at_work(beats, burns=burns)
    first, second = beats
    if burns or first.main_cpu_seconds is None or second.main_cpu_seconds is None:
        return None
    return _is_much(second.main_cpu_seconds - first.main_cpu_seconds, beats)


def _used_cpu(first: Beat, second: Beat, *, burns: bool) -> bool:
    # Of all threads: a main thread may wait for one that works.
    used = 0.0 if burns else second.cpu_seconds - first.cpu_seconds
    if first.children_cpu_seconds is not None and second.children_cpu_seconds is not None:
        used = max(used, second.children_cpu_seconds - first.children_cpu_seconds)  # or for what it has started
    return _is_much(used, (first, second))


def _is_much(used: float, beats: Beats) -> bool:
    return used > max(LEAST_CPU_SECONDS, BUSY_CPU_SHARE * seconds_of(beats))


def moved_bytes(first: Beat, second: Beat) -> bool:
    """Did a process read and write more between two beats than it does for nothing?"""
    if first.io_bytes is None or second.io_bytes is None:
        return False
    return second.io_bytes - first.io_bytes > BUSY_BYTES


def main_switched(beats: Beats | None, *, polls: bool = True, spare: int = 0) -> bool | None:
    """Did its main thread wake? `polls`: may it do so now and then for nothing? Who waits for a remote call may not."""
    if beats is None:
        return None
    first, second = beats
    before = None if first.main_switches is None else first.main_switches + spare
    return often(before, second.main_switches, seconds_of(beats) if polls else 0.0)


def main_switched_within(look: RankSnapshot, *, polls: bool) -> bool | None:
    """The same while it was looked at. Native frames cost it as many wakes as a short interval may hold anyway."""
    native = isinstance(look.stacks, Missing) or look.stacks.native
    return main_switched(beats_within(look.process), polls=polls, spare=SPARE_SWITCHES if native else 0)


def often(before: int | None, after: int | None, seconds: float) -> bool | None:
    """Is a count of wakes higher by more than a thread that waits wakes for nothing? None: not known."""
    if before is None or after is None:
        return None
    return after - before > SPARE_SWITCHES + IDLE_SWITCHES_PER_SECOND * seconds
