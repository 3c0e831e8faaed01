"""Step 6, deadlocks between two groups: which order of two operations is usual in the whole job.

Where a circle of waits comes down to two operations, every rank that has taken both may vote, whatever its stage. The
operations need not belong to the same objects on every rank: rank 0 takes `tp0` where rank 2 takes `tp1`.
"""

from collections import defaultdict

from collector.align.groups.process_groups import role_of
from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge
from collector.align.thresholds import LEAST_VOTES
from shared.isolation import costs_itself
from shared.wire.trace import Trace

_Operation = tuple[str, int]
"""(role of a group, sequence)."""


@costs_itself(lambda *_: None)
def order_breaker(
    cycle: tuple[int, ...], edges: tuple[Edge, ...], groups: tuple[GroupView, ...], traces: dict[int, Trace]
) -> int | None:
    """Return the one rank of a circle that takes two operations in another order than all others, or None."""
    waiting = {edge.waiter: (role_of(edge.group, groups), edge.sequence or 0) for edge in sorted(edges, key=_age)}
    if len(set(waiting.values())) != 2:
        return None
    one, other = sorted(set(waiting.values()))
    taken_first: dict[_Operation, set[int]] = defaultdict(set)
    for rank in sorted(traces):
        at = {operation: _position(rank, operation, groups) for operation in (one, other)}
        taken = {operation: position for operation, position in at.items() if position is not None}
        if rank in waiting or len(taken) == 2:
            taken_first[min(taken, key=taken.__getitem__, default=waiting.get(rank, one))].add(rank)
    usual, unusual = sorted((taken_first[one], taken_first[other]), key=len, reverse=True)
    return unusual.copy().pop() if len(unusual) == 1 and len(usual) >= LEAST_VOTES and unusual <= {*cycle} else None


def _age(edge: Edge) -> tuple[int, str]:
    return (-edge.created_ns, edge.group.name)


def _position(rank: int, operation: _Operation, groups: tuple[GroupView, ...]) -> int | None:
    role, sequence = operation
    for group in groups:
        lane = group.lanes.get(rank)
        held = () if lane is None or role_of(group, groups) != role else lane.at(sequence)
        if held:
            return held[0]
    return None
