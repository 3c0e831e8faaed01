"""Step 6, circles of waits through a send or a receive: whose own habit shows that it left out the counterpart.

A send too few and a receive too many look the same in the end, and so does an order that two ranks take differently.
What tells them apart is what each of the two did before: between two calls a program passes on as much as ever.

1. Who owes the counterpart posted it between the same two calls each time before, and one less now: it left one out.
2. Where the one who waits has itself strayed from its habit, or a habit cannot be told, nobody is named.
"""

from collections import defaultdict
from collections.abc import Iterable

from collector.align.groups.signature_rules import OTHER_SIDE
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.judge.tie_breakers.broken_habit import Habit, Short, habit_of, posts_between
from shared.isolation import costs_itself
from shared.plural import counted
from shared.wire.trace import Trace

_Call = tuple[int, int]
"""Indices of a group and of a signature in one rank's own record."""


@costs_itself(lambda edges, observations: None)
def left_out_send(edges: Iterable[Edge], observations: Observations) -> Short | None:
    """Return the one counterpart that was left out in a circle; None where none was, or where several may have been."""
    found: dict[int, Short] = {}
    for edge in edges:
        if not edge.is_p2p or edge.signature.op not in OTHER_SIDE or len(edge.holders) != 1 or edge.queued:
            continue
        owing, op = edge.holders[0], OTHER_SIDE[edge.signature.op]
        if not {owing, edge.waiter} <= observations.traces.keys():
            continue
        short = _short_of_habit(edge, op, observations.traces[owing])
        if short is not None and _keeps_to_habit(edge, observations.traces[edge.waiter]):
            text = (
                f"rank {owing} posted {short.now} instead of {counted(short.usual, op)} for rank {edge.waiter} "
                f"between the same two calls as in the {short.steps} times before"
            )
            found.setdefault(owing, Short(owing, text, edge))
    return next(iter(found.values())) if len(found) == 1 else None


def _short_of_habit(edge: Edge, op: str, trace: Trace) -> Habit | None:
    """1. Return the habit where it was posted too seldom the last time."""
    short = [habit for habit in _habits(edge, op, trace) if habit.now < habit.usual]
    return short[0] if len(short) == 1 else None


def _keeps_to_habit(edge: Edge, trace: Trace) -> bool:
    """2. Did it post no more than each time before, as far as that can be told?"""
    told = _habits(edge, edge.signature.op, trace)
    return bool(told) and all(habit.now <= habit.usual for habit in told)


def _habits(edge: Edge, op: str, trace: Trace) -> list[Habit]:
    found = map(habit_of, _between(edge, op, trace).values())
    return [habit for habit in found if habit is not None]


def _between(edge: Edge, op: str, trace: Trace) -> dict[tuple[_Call, _Call], list[int]]:
    """How often one side of the operation was posted between two other calls, by these, in the order of the record."""
    counts: dict[tuple[_Call, _Call], list[int]] = defaultdict(list)
    posted = (op, edge.signature.source, edge.signature.target)
    for before, count, after in posts_between(trace, edge.group.name, posted, lambda at: _call(at, trace)):
        if before is not None and after is not None:
            counts[before, after].append(count)
    return counts


def _call(at: int, trace: Trace) -> _Call:
    return trace.group[at], trace.signature[at]
