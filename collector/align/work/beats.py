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
    LEAST_SEEN_SHARE,
    LONG_LOOK_SECONDS,
    SPARE_SWITCHES,
)
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Process, RankSnapshot
from shared.wire.trace import Origin, Trace

Beats = tuple[Beat, Beat]
_ASKED = frozenset({Origin.WORKER_SERVER, Origin.DEBUG_SERVER})


def beats_between(a: Process | Missing, b: Process | Missing) -> Beats | None:
    """Return the last beat of a process in one look and its first in the next; None where they cannot be compared.

    A look that ran out of time has but the beat that it began with.
    """
    if not isinstance(a, Process) or not isinstance(b, Process):
        return None
    first, second = a.after or a.before, b.before
    return (first, second) if first is not None and second is not None and second.at_ns > first.at_ns else None


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


def spins(beats: Beats | None) -> bool:
    """Did its main thread use more CPU time than a few steps do? Where nothing tells, it may have."""
    first, second = beats or (None, None)
    if first is None or second is None or first.main_cpu_seconds is None or second.main_cpu_seconds is None:
        return True
    return second.main_cpu_seconds - first.main_cpu_seconds > BUSY_CPU_SHARE * seconds_of(beats)


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


class Between:
    """Two beats of one process, the earlier one first."""

    def __init__(self, first: Beat, second: Beat) -> None:
        self._first, self._second = first, second
        self.seconds = (second.at_ns - first.at_ns) / 1e9

    @property
    def cpu(self) -> float:
        """CPU seconds a second, of all its threads but those that are known to spin."""
        return self._per_second(self._first.cpu_seconds, self._second.cpu_seconds)

    @property
    def main_cpu(self) -> float | None:
        """The same of its main thread; None: not known."""
        before, after = self._first.main_cpu_seconds, self._second.main_cpu_seconds
        return None if before is None or after is None else self._per_second(before, after)

    @property
    def children_cpu(self) -> float:
        """The same of all that it has started, down the tree, also of what has ended since."""
        return self._per_second(self._first.children_cpu_seconds, self._second.children_cpu_seconds)

    @property
    def moved(self) -> int:
        """Bytes read and written, but for what its own logs have grown by."""
        first, second = self._first, self._second
        if first.io_bytes is None or second.io_bytes is None:
            return 0
        logged = max(0, (second.log_bytes or 0) - (first.log_bytes or 0))
        return max(0, second.io_bytes - first.io_bytes - logged)

    def is_much(self, cpu: float, least: float = BUSY_CPU_SHARE) -> bool:
        """Is so much CPU time, in seconds a second, work rather than an occasional poll?"""
        return cpu > least and cpu * self.seconds > LEAST_CPU_SECONDS

    def _per_second(self, before: float | None, after: float | None) -> float:
        return 0.0 if before is None or after is None else max(0.0, after - before) / self.seconds


def between(a: Process | Missing, b: Process | Missing) -> Between | None:
    """Return what happened from one look to the next; None: they cannot be compared.

    Where hardly any time is between them, as on a busy machine, what happened during them counts, too.
    """
    beats = beats_between(a, b)
    if not isinstance(a, Process) or not isinstance(b, Process):
        return None
    first, second = a.before or a.after, b.after or b.before
    if first is not None and second is not None and first.at_ns + LONG_LOOK_SECONDS * 1e9 <= second.at_ns:
        whole = first, second
        beats = whole if seconds_of(beats) < LEAST_SEEN_SHARE * seconds_of(whole) else beats
    return None if beats is None else Between(*beats)


def within(process: Process | Missing) -> Between | None:
    """Return what happened during a look that took long enough to tell."""
    beats = beats_within(process)
    return None if beats is None else Between(*beats)


def between_of_child(a: Process, b: Process | None) -> Between | None:
    """The same of a child, also of one that was not stopped in the first look, and so has no second beat there."""
    beats = None if b is None else beats_between(a, b)
    return None if beats is None else Between(*beats)
