"""Groups whose members nobody tells, and in which some ranks wait that have all issued the same: are these all?

Who is alone in such a group waits for a rank that has not come there. Where several have come, nobody else may be
lacking, or one that waits in another group: then nothing shows who waits for whom, and nobody is accused.
"""

from collections import defaultdict
from dataclasses import replace

from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.stacks.activity import NOT_SEEN
from collector.judge.fault import Fault, waited_in
from collector.judge.fault_rows import fault_by
from collector.judge.records.deadlock import circle_fault
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.call_order import CallOrders
from shared.plural import ranks_with

_MOST_TOLD = 4


def open_faults(observations: Observations, programs: CallOrders) -> list[Fault]:
    """Return what ranks in such groups wait for, where all who may be members wait in other operations."""
    open_edges = [edge for edge in observations.edges if _is_open(edge)]
    if not open_edges:
        return []
    edges = tuple(
        replace(edge, holders=edge.group.others) if _is_open(edge) and _is_alone(edge) else edge
        for edge in observations.edges
    )
    graph = WaitGraph(edges)
    if all(_is_alone(edge) and graph.victims_of([edge.waiter]).issuperset(edge.group.others) for edge in open_edges):
        seen = replace(observations, edges=edges)
        return [circle_fault(cycle, graph, seen, programs) for cycle in graph.cycles()]
    waiters = {edge.waiter for edge in observations.edges}
    elsewhere = {rank for edge in open_edges for rank in edge.group.others} - waiters
    if any(observations.activities.get(r, NOT_SEEN) != NOT_SEEN or r not in observations.traces for r in elsewhere):
        return []  # its stack tells, or nothing does
    return [_unclear(open_edges, waiters)]


def _is_open(edge: Edge) -> bool:
    return not edge.holders and not edge.is_p2p and bool(edge.group.others)


def _is_alone(edge: Edge) -> bool:
    """Has nobody else issued it? An operation of one rank alone is over at once."""
    return not edge.group.is_met_at(edge.sequence or 0)


def _unclear(edges: list[Edge], waiters: set[int]) -> Fault:
    together: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    for edge in edges:
        together[edge.signature.op, edge.group.label, edge.sequence].append(edge.waiter)
    told = [
        f"{ranks_with(ranks, 'waits', 'wait')} in {op} #{sequence} of group {group}"
        for (op, group, sequence), ranks in list(together.items())[:_MOST_TOLD]
    ]
    words = {"told": "; ".join(told), "those": "that group" if len(together) == 1 else "those groups"}
    first = min(edges, key=lambda edge: edge.created_ns)
    return fault_by("open_group", (), waiters, words, **waited_in(tuple(edges), first))
