"""What the counters of one process tell between two looks at it."""

from collector.align.beats import beats_between, beats_within, seconds_of
from collector.align.thresholds import BUSY_CPU_SHARE, LEAST_CPU_SECONDS, LEAST_SEEN_SHARE, LONG_LOOK_SECONDS
from shared.missing import Missing
from shared.wire.snapshot import Beat, Process


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
    if b is None:
        return None
    first, second = a.after or a.before, b.before
    return Between(first, second) if first is not None and second is not None and second.at_ns > first.at_ns else None
