"""Step 6, circles of waits through a send or a receive: whose own habit shows that it left out the counterpart.

A send too few and a receive too many look the same in the end, and so does an order that two ranks take differently.
What tells them apart is what each of the two did before: between two calls a program passes on as much as ever.

1. Who owes the counterpart posted it between the same two calls each time before, and one less now: it left one out.
2. Where the one who waits has itself strayed from its habit, or a habit cannot be told, nobody is named.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from collector.align.groups.wait_edge import Edge
from collector.align.observations import Observations
from collector.align.thresholds import LEAST_EARLIER
from shared.plural import counted
from shared.wire.trace import Trace

_COUNTERPART = {"send": "recv", "recv": "send"}
_Call = tuple[int, int]
"""Indices of a group and of a signature in one rank's own record."""


@dataclass(frozen=True)
class LeftOutSend:
    """A rank that posted its side of a point-to-point operation less often than in each of the `steps` before."""

    edge: Edge
    rank: int
    usual: int
    now: int
    steps: int

    def __str__(self) -> str:
        """The evidence in one sentence, for a remark."""
        op, peer = _COUNTERPART[self.edge.signature.op], self.edge.waiter
        return (
            f"rank {self.rank} posted {self.now} instead of {counted(self.usual, op)} for rank {peer} between the "
            f"same two calls as in the {self.steps} times before"
        )


def left_out_send(edges: Iterable[Edge], observations: Observations) -> LeftOutSend | None:
    """Return the one counterpart that was left out in a circle; None where none was, or where several may have been."""
    found: dict[int, LeftOutSend] = {}
    for edge in edges:
        if not edge.is_p2p or edge.signature.op not in _COUNTERPART or len(edge.holders) != 1 or edge.queued:
            continue
        owing = edge.holders[0]
        if not {owing, edge.waiter} <= observations.traces.keys():
            continue
        short = _short_of_habit(edge, _COUNTERPART[edge.signature.op], observations.traces[owing])
        if short and _keeps_to_habit(edge, observations.traces[edge.waiter]):
            found.setdefault(owing, LeftOutSend(edge, owing, *short))
    return next(iter(found.values())) if len(found) == 1 else None


def _short_of_habit(edge: Edge, op: str, trace: Trace) -> tuple[int, int, int] | None:
    """1. Return (how often it usually is, how often the last time, how often before that) where it was too seldom."""
    short = [
        (earlier[0], now, len(earlier))
        for *earlier, now in _between(edge, op, trace).values()
        if len(earlier) >= LEAST_EARLIER and len(set(earlier)) == 1 and now < earlier[0]
    ]
    return short[0] if len(short) == 1 else None


def _keeps_to_habit(edge: Edge, trace: Trace) -> bool:
    """2. Did it post no more than each time before, as far as that can be told?"""
    counts = _between(edge, edge.signature.op, trace).values()
    told = [(earlier, now) for *earlier, now in counts if len(earlier) >= LEAST_EARLIER and len(set(earlier)) == 1]
    return bool(told) and all(now <= earlier[0] for earlier, now in told)


def _between(edge: Edge, op: str, trace: Trace) -> dict[tuple[_Call, _Call], list[int]]:
    """How often one side of the operation was posted between two other calls, by these, in the order of the record."""
    group = edge.group.ref.name
    posted = {
        index
        for index, one in enumerate(trace.signatures)
        if (one.op, one.source, one.target) == (op, edge.signature.source, edge.signature.target)
    }
    counts: dict[tuple[_Call, _Call], list[int]] = defaultdict(list)
    before: _Call | None = None
    count = 0
    for at in range(trace.whole_from, len(trace)):
        call = (trace.group[at], trace.signature[at])
        if call[1] in posted and trace.groups[call[0]].name == group:
            count += 1
            continue
        if before is not None:
            counts[before, call].append(count)
        before, count = call, 0
    return counts
