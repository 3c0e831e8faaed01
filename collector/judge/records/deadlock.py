"""Step 6: a circle of waits as a fault, with the walk around it and the ranks that broke the usual order."""

from collections import defaultdict
from collections.abc import Sequence

from collector.align.groups.signature_rules import OTHER_SIDE
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.roster import ByRank
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, first_edge, waited_in
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.call_order import CallOrders
from collector.judge.tie_breakers.group_order import order_breaker
from collector.judge.tie_breakers.left_out_send import left_out_send
from collector.judge.tie_breakers.sibling_sends import fewer_by_record
from shared.answer.words import Cause, Kind
from shared.wire.trace import Trace

_MOST_TOLD = 4
_LOST = "sends and receives wait for each other, and the records that would show which one is missing were overwritten"
_TIED = "the ranks issued the operations in different orders, and no order has a majority"


def circle_fault(cycle: tuple[int, ...], graph: WaitGraph, observations: Observations, programs: CallOrders) -> Fault:
    """One set of ranks that wait for each other: a deadlock, and who of them strayed from the usual order."""
    inside = tuple(e for e in observations.edges if e.begun and e.waiter in cycle and set(e.holders) & set(cycle))
    left_out = left_out_send(inside, observations) or fewer_by_record(inside, observations)
    about = first_edge(inside)
    named: _Named
    if left_out is not None and left_out.edge is not None:
        kind, about, named = Kind.P2P_UNMATCHED, left_out.edge, ((left_out.rank,), (left_out.evidence,))
    elif all(edge.is_p2p for edge in inside):
        kind, named = Kind.P2P_DEADLOCK, _partners(cycle, inside, observations)
    else:
        kind, named = Kind.ORDER_INVERSION, _breakers(cycle, inside, observations, programs)
        if not named[0] and (lone := [edge for edge in inside if edge.is_p2p and not edge.queued]):
            kind, about, named = Kind.P2P_UNMATCHED, lone[0], ((), (_without_counterpart(lone[0], inside),))
    culprits, remarks = named
    support = Support.HABIT if kind is Kind.P2P_UNMATCHED and culprits else _support(culprits, inside)
    return Fault(
        kind=kind,
        culprits=culprits,
        victims=tuple(sorted((graph.victims_of(cycle) | set(cycle)) - set(culprits))),
        certainty=how_sure(kind, support),
        cause=Cause.USER_CODE,
        cycle=_ring(cycle, inside),
        remarks=remarks,
        **waited_in(inside, about),
    )


_Named = tuple[tuple[int, ...], tuple[str, ...]]
"""(culprits, remarks)."""


def _partners(cycle: tuple[int, ...], edges: tuple[Edge, ...], observations: Observations) -> _Named:
    """Everybody is part of it, unless records are overwritten that may be the missing half, or the one before."""
    if observations.overwritten(cycle) and (
        len({edge.signature.op for edge in edges}) > 1 or _inferred(edges, observations.traces)
    ):
        return (), (_LOST,)
    return cycle, ()


def _breakers(
    cycle: tuple[int, ...], edges: tuple[Edge, ...], observations: Observations, programs: CallOrders
) -> _Named:
    strays = programs.strays(cycle)
    if strays and not (len(strays) > 1 and observations.overwritten(cycle)):
        return tuple(stray.rank for stray in strays), tuple(map(str, strays[:_MOST_TOLD]))
    breaker = None if strays else order_breaker(cycle, edges, observations.groups, observations.traces)
    return ((), (_TIED,)) if breaker is None else ((breaker,), ())


def _without_counterpart(edge: Edge, inside: tuple[Edge, ...]) -> str:
    """What is on record where a rank has gone on without its side of a send or receive: left out, or still to come."""
    peer, other = edge.holders[0], OTHER_SIDE.get(edge.signature.op, "counterpart")
    ahead = first_edge(each for each in inside if each.waiter == peer)
    named = "" if ahead is None else ahead.group.label
    now = "" if ahead is None else f" and waits in {ahead.signature.op} of group {named}"
    return (
        f"rank {edge.waiter} waits in {edge.signature.op} for rank {peer}, which has not posted the {other}{now}: "
        "it left it out, would post it only later, or does not owe it"
    )


def _inferred(edges: tuple[Edge, ...], traces: ByRank[Trace]) -> bool:
    """Is the order of the queues read from what is unfinished, where starts are not recorded?"""
    return any(edge.queued and not any(traces[edge.waiter].started_ns) for edge in edges)


def _ring(cycle: tuple[int, ...], edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """One closed walk through the deadlock, beginning at its lowest rank."""
    leaving: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        leaving[edge.waiter].append(edge)
    walk: dict[int, Edge] = {}
    at = cycle[0]
    while at not in walk:
        edge = min(leaving[at], key=lambda e: (e.created_ns, e.group.name))
        onward = sorted(set(edge.holders) & set(cycle))
        walk[at] = edge
        at = next((rank for rank in onward if rank not in walk), onward[0])
    ring = list(walk)
    return tuple(walk[rank] for rank in ring[ring.index(at) :])


def _support(culprits: Sequence[int], edges: Sequence[Edge]) -> Support:
    """Return what shows who broke the order in a circle of waits: the order of queues may be inferred."""
    if not culprits:
        return Support.TIE
    return Support.PART_OF_RECORD if any(edge.queued for edge in edges) else Support.RECORD
