"""Step 6, deadlocks: which ranks take two groups' operations in another order than the majority.

The groups in a deadlock need not be the same objects on every rank: rank 0 takes `tp0` where rank 2 takes `tp1`.
They are compared by role: the description without its number, so that every rank of the job may vote.
"""

from collections import defaultdict
from dataclasses import dataclass

from collector.diagnose.groups import GroupView
from collector.diagnose.programs import Programs
from collector.diagnose.roles import role_of
from collector.diagnose.waits import Edge
from shared.trace import Trace

Operation = tuple[str, int]
"""(role of a group, sequence)."""


@dataclass(frozen=True)
class Order:
    """Who in a circle of waits takes operations in another order than the others. No `breakers`: nothing tells."""

    breakers: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()


def order_breakers(cycle: tuple[int, ...], edges: tuple[Edge, ...], programs: Programs) -> Order:
    """Ask the peers of each rank first, then, where only two operations are in dispute, every rank of the job."""
    strays = programs.strays(cycle)
    if strays:
        return Order(tuple(stray.rank for stray in strays), tuple(map(str, strays[:_MOST_TOLD])))
    return Order(_by_vote(cycle, edges, programs.groups, programs.traces))


_MOST_TOLD = 4


def _by_vote(
    cycle: tuple[int, ...], edges: tuple[Edge, ...], groups: tuple[GroupView, ...], traces: dict[int, Trace]
) -> tuple[int, ...]:
    pending = {edge.waiter: (role_of(edge.group, groups), edge.sequence or 0) for edge in sorted(edges, key=_age)}
    taken_first: dict[Operation, set[int]] = defaultdict(set)
    for rank, operation in pending.items():
        taken_first[operation].add(rank)
    if len(taken_first) != 2:
        return ()
    one, other = taken_first
    for rank in sorted(traces.keys() - pending.keys()):
        first = _first_of(rank, one, other, groups, traces)
        if first is not None:
            taken_first[first].add(rank)
    largest, smallest = sorted(taken_first.values(), key=len, reverse=True)
    return tuple(rank for rank in cycle if rank in smallest) if len(largest) > len(smallest) else ()


def _age(edge: Edge) -> tuple[int, str]:
    return (-edge.created_ns, edge.group.name)


def _first_of(
    rank: int, one: Operation, other: Operation, groups: tuple[GroupView, ...], traces: dict[int, Trace]
) -> Operation | None:
    """Which of two operations did `rank` take first? None if it has taken neither."""
    at = {operation: _position(rank, operation, groups) for operation in (one, other)}
    taken = {operation: position for operation, position in at.items() if position is not None}
    return min(taken, key=lambda operation: taken[operation], default=None)


def _position(rank: int, operation: Operation, groups: tuple[GroupView, ...]) -> int | None:
    role, sequence = operation
    for group in groups:
        lane = group.lanes.get(rank)
        held = () if lane is None or role_of(group, groups) != role else lane.at(sequence)
        if held:
            return held[0]
    return None
