"""Since when a finding stands: by the oldest operation in it, else by how long its ranks were seen to stand still."""

from datetime import UTC, datetime

from collector.align.observations import Observations
from collector.judge.fault import Fault
from shared.answer.words import Kind

_NS = 1_000_000_000


def since_of(fault: Fault, observations: Observations) -> tuple[str | None, float | None]:
    """Return since when, in RFC 3339, and for how many seconds at the last look at a live job; None: not known.

    Without a record it stands at least so long. A straggler is late in every step, and has no beginning here.
    """
    if fault.kind is Kind.STRAGGLER:
        return None, None
    roster = observations.roster
    last = roster.last_look_ns if roster.live else None
    begun = [edge.created_ns - roster.ahead_ns(edge.waiter) for edge in (*fault.edges, *fault.cycle) if edge.created_ns]
    if begun:
        oldest = min(begun)
        lasted = None if last is None or last < oldest else (last - oldest) / _NS
        return _in_words(oldest), None if lasted is None else round(lasted, 1)
    stall = observations.stall(fault.victims)
    if last is None or stall <= 0:
        return None, None
    return _in_words(last - int(stall * _NS)), round(stall, 1)


def _in_words(ns: int) -> str | None:
    """What a job has recorded may be no time at all."""
    try:
        return datetime.fromtimestamp(ns / _NS, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
