"""What came after a rank had waited in vain: whoever gives up ends its process, and its peers lose their connections.

A line counts as later by its stamp, or by its place in the same file; where neither tells, it does not.
"""

from bisect import bisect_left

from collector.align.logs.attributed_lines import Statements
from collector.align.thresholds import AT_ONCE_SECONDS, FULL_WAIT, INCIDENT_SECONDS
from shared.formats.logs.timestamps import seconds_between
from shared.wire.log_events import EventKind, LogEvent


class Aftermath:
    """The waits that lasted until their timeout, and what followed them."""

    def __init__(self, statements: Statements) -> None:
        told = statements.of_kind(EventKind.WATCHDOG_TIMEOUT, EventKind.TRANSPORT_ERROR, EventKind.BARRIER_FAILED)
        waits = [event for _, event in told if _is_full_wait(event)]
        times = (_seconds(event) for event in waits)
        self._times = sorted(time for time in times if time is not None)
        self._first: dict[str, int] = {}
        for event in waits:
            self._first[event.path] = min(event.number, self._first.get(event.path, event.number))

    def holds(self, event: LogEvent) -> bool:
        """Was a line written after somebody had waited in vain?"""
        if _is_full_wait(event):
            return False
        if event.path and event.path in self._first and event.at is None:
            return event.number > self._first[event.path]
        time = _seconds(event)
        if time is None:
            return False
        earlier = bisect_left(self._times, time - AT_ONCE_SECONDS)
        return earlier > 0 and time - self._times[earlier - 1] <= INCIDENT_SECONDS


def _seconds(event: LogEvent) -> float | None:
    """When a line was written, within any year."""
    return seconds_between("01-01 00:00:00", event.stamp) if event.stamp else None


def _is_full_wait(event: LogEvent) -> bool:
    fields = event.fields
    if event.kind is EventKind.BARRIER_FAILED:
        return "timeout_ms" in fields
    if event.kind is EventKind.TRANSPORT_ERROR:
        return "timeout_ms" in fields
    if "elapsed_ms" in fields and "timeout_ms" in fields:
        return float(fields["elapsed_ms"]) >= FULL_WAIT * float(fields["timeout_ms"])
    return False
