"""Which clocks are off: when agents say they looked, compared with when they were asked.

An agent begins its look after it was asked, and ends it before its answer is there. Its clock says when it began: so
how far it is ahead of ours is known to within half of the round trip. The verdict never compares clocks of different
nodes, but people who compare logs should know.
"""

from collections.abc import Iterable, Sequence

from pydantic import Field

from shared.answer.diagnosis import Conflict
from shared.errors import quoted
from shared.units import duration_text
from shared.value import Value
from shared.wire.snapshot import NodeSnapshot

TOLD_SECONDS = 2.0
"""Smaller differences do no harm: logs have seconds."""

_MOST_TOLD = 8


class Clock(Value):
    """How far one node's clock is ahead of ours."""

    host: str
    ahead_seconds: float
    within_seconds: float = Field(description="The true difference is at most so far from `ahead_seconds`.")


def clock_of(asked_at_ns: int, answered_at_ns: int, snapshot: NodeSnapshot) -> Clock | None:
    """Return a node's clock by one answer; None if it gives no time, or our clock was set in between."""
    if snapshot.host is None or snapshot.taken_at_ns is None or not snapshot.live:
        return None
    latest_ns = max(asked_at_ns, answered_at_ns - int(max(0.0, snapshot.took_seconds) * 1e9))
    if answered_at_ns < asked_at_ns:
        return None
    middle_ns = (asked_at_ns + latest_ns) // 2
    return Clock(
        host=snapshot.host,
        ahead_seconds=(snapshot.taken_at_ns - middle_ns) / 1e9,
        within_seconds=(latest_ns - asked_at_ns) / 2e9,
    )


def clocks_apart(clocks: Iterable[Clock]) -> tuple[Conflict, ...]:
    """Describe the clocks that differ from those of most other nodes, whether ours is right or not."""
    known = _best(clocks)
    usual = _usual(known)
    if usual is None:
        return ()
    off = [clock for clock in known if _apart(clock, usual)]
    if not off:
        return ()
    off.sort(key=lambda clock: (-abs(clock.ahead_seconds - usual.ahead_seconds), clock.host))
    differences = [f"{quoted(clock.host)} is {_difference(clock, usual)}" for clock in off[:_MOST_TOLD]]
    more = f", and {len(off) - _MOST_TOLD} more" if len(off) > _MOST_TOLD else ""
    against = (
        f"that of {quoted(usual.host)}" if len(known) - len(off) == 1 else f"those of {len(known) - len(off)} others"
    )
    text = f"node clocks differ: {', '.join(differences)}{more}, against {against}; times in their logs differ as well"
    return (Conflict(sources=("clock", "clock"), text=text),)


def _best(clocks: Iterable[Clock]) -> list[Clock]:
    """Of several answers of one node the fastest is the most accurate."""
    best: dict[str, Clock] = {}
    for clock in clocks:
        if clock.host not in best or _rank(clock) < _rank(best[clock.host]):
            best[clock.host] = clock
    return [best[host] for host in sorted(best)]


def _rank(clock: Clock) -> tuple[float, float]:
    return (clock.within_seconds, clock.ahead_seconds)


def _usual(clocks: Sequence[Clock]) -> Clock | None:
    """Return the middle one of the clocks that most others agree with; of several such sets that which is like ours."""
    if len(clocks) < 2:
        return None
    ordered = sorted(clocks, key=lambda clock: (clock.ahead_seconds, clock.host))
    first, after = 0, 0
    sets: list[tuple[int, float, int]] = []
    for clock in ordered:
        while ordered[first].ahead_seconds < clock.ahead_seconds - TOLD_SECONDS:
            first += 1
        while after < len(ordered) and ordered[after].ahead_seconds <= clock.ahead_seconds + TOLD_SECONDS:
            after += 1
        sets.append((first - after, abs(clock.ahead_seconds), (first + after - 1) // 2))
    return ordered[min(sets)[2]]


def _apart(clock: Clock, usual: Clock) -> bool:
    known = abs(clock.ahead_seconds - usual.ahead_seconds) - clock.within_seconds - usual.within_seconds
    return known > TOLD_SECONDS


def _difference(clock: Clock, usual: Clock) -> str:
    seconds = clock.ahead_seconds - usual.ahead_seconds
    return f"{duration_text(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
