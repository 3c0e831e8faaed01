"""Step 6: the roots of the wait-for graph as faults, one for all that are waited for in the same operation.

Most roots are behind. Where a few wait for the many, the few may be the odd ones, ahead by a call of their own.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from collector.align.groups.device_queues import unfinished
from collector.align.groups.process_groups import GroupView, role_of
from collector.align.groups.wait_edge import Edge
from collector.align.observations import Observations
from collector.align.roster import Presence
from collector.align.thresholds import is_majority
from collector.judge.certainty import of_root
from collector.judge.fault import TELLING, Fault, first_edge, kind_of
from collector.judge.records.call_order import CallOrders
from collector.judge.records.skipped_call import shift_of
from collector.judge.records.wait_graph import WaitGraph
from shared.answer.words import Cause, Certainty, Kind
from shared.rank_sets import ranks_in_words


def root_faults(
    roots: Iterable[int], graph: WaitGraph, observations: Observations, programs: CallOrders
) -> list[Fault]:
    """One fault for all roots of one kind that are waited for in the same operation, and one for all silent nodes."""
    together: dict[tuple[Kind, Cause | None, str, int | None], list[int]] = defaultdict(list)
    firsts = graph.first_edges()
    for root in roots:
        edge = firsts.get(root)
        kind = kind_of(root, observations)
        cause = (
            observations.activities[root].cause
            if root in observations.activities and kind is Kind.RANK_NOT_JOINED
            else None
        )
        where = ("", None) if edge is None or kind is Kind.RANK_UNREACHABLE else (edge.group.name, edge.sequence)
        together[kind, cause, *where].append(root)
    faults = [_root_fault(key[0], tuple(ranks), graph, observations) for key, ranks in together.items()]
    return [_turned(fault, observations, programs) for fault in faults]


def _root_fault(kind: Kind, culprits: tuple[int, ...], graph: WaitGraph, observations: Observations) -> Fault:
    edges = graph.edges_to(culprits)
    first = first_edge(edges)
    if first is not None and first.is_p2p and kind is Kind.RANK_NOT_JOINED:
        kind = Kind.P2P_UNMATCHED
    group, op, sequence = _operation(culprits, graph, first)
    begun = not (first is not None and kind is Kind.RANK_NOT_JOINED and set(culprits) <= set(first.queued))
    certainty = of_root(kind, culprits, first, observations)
    return Fault(
        kind=kind if begun else Kind.STUCK_TOGETHER,
        culprits=culprits,
        victims=tuple(sorted(graph.victims_of(culprits))),
        certainty=certainty if begun else Certainty.SUPPORTED,
        edges=(*edges, *graph.edges_among(graph.victims_of(culprits))),
        group=group,
        op=op,
        sequence=sequence,
        remarks=(
            *_membership_remark(first),
            *(() if begun else (f"{ranks_in_words(culprits)} issued it, but the device has not started it",)),
            *_shift_remark(culprits, first, observations),
        ),
    )


def _operation(
    culprits: tuple[int, ...], graph: WaitGraph, first: Edge | None
) -> tuple[GroupView | None, str | None, int | None]:
    """What they are waited for in: the oldest operation, or of several groups what these have in common."""
    if first is None:
        return None, None, None
    if set(first.group.members).issuperset(culprits):
        return first.group, first.signature.op, first.sequence
    firsts = graph.first_edges()
    told = {(edge.signature.op, edge.sequence) for edge in (firsts.get(rank) for rank in culprits) if edge is not None}
    return (None, *told.pop()) if len(told) == 1 else (None, None, None)


def _shift_remark(culprits: tuple[int, ...], edge: Edge | None, observations: Observations) -> tuple[str, ...]:
    """A rank that is one operation short may have skipped it long ago: call sites tell where."""
    if edge is None or edge.is_p2p or len(culprits) != 1:
        return ()
    shift = shift_of(edge.group, culprits[0], edge.waiter, observations.traces)
    return () if shift is None else (str(shift),)


def _membership_remark(edge: Edge | None) -> tuple[str, ...]:
    if edge is None or not edge.group.inferred or edge.group.name == "0":
        return ()
    return (f"no dump names the members of group {edge.group.name}; they were inferred from the records",)


def _turned(fault: Fault, observations: Observations, programs: CallOrders) -> Fault:
    """The odd rank may be ahead: a few wait where the many, communicating elsewhere or done, will never come."""
    if fault.group is None or fault.kind not in (Kind.RANK_NOT_JOINED, Kind.RANK_EXITED):
        return fault
    waiting = {edge.waiter for edge in fault.edges if edge.group is fault.group and edge.sequence == fault.sequence}
    if not _few_have_come(fault.group, fault.sequence, observations):
        return fault
    if all(_went_on(rank, observations) for rank in fault.culprits):
        return _convicting(waiting, fault, "most of the group went on without this operation")
    shifts = [shift_of(fault.group, rank, fault.culprits[0], observations.traces) for rank in sorted(waiting)]
    if all(shift is not None and shift.by < 0 for shift in shifts):
        return _convicting(waiting, fault, *map(str, shifts))
    strays = programs.strays(waiting)
    if len(strays) == len(waiting):
        return _convicting(waiting, fault, *map(str, strays))
    if fault.kind is Kind.RANK_EXITED or all(_held_elsewhere(rank, observations) for rank in fault.culprits):
        return fault
    remark = "most of the group has not issued this operation: they are blocked, or the few that wait went astray"
    return replace(fault, culprits=(), certainty=Certainty.SUSPECTED, remarks=(*fault.remarks, remark))


def _few_have_come(group: GroupView, sequence: int | None, observations: Observations) -> bool:
    """Have more members, with nothing in flight that would keep them, not come to this operation than have?

    In a group of two either side may be the odd one: groups of the same role on other ranks are counted, too. Where
    most of the job has ended well, those who are left to wait are the odd ones, unless most have made that call.
    """
    if sequence is None:
        return False
    role, size = role_of(group, observations.groups), len(group.members)
    alike = [other for other in observations.groups if len(other.members) == size]
    same = [other for other in alike if other is group or role_of(other, observations.groups) == role]
    come = {rank for other in same for rank, lane in other.lanes.items() if lane.issued >= sequence}
    behind = {rank for other in same for rank, lane in other.lanes.items() if lane.issued < sequence}
    idle = {rank for rank in behind if not unfinished(observations.traces[rank])}
    ended = [rank for rank in observations.roster.ranks if _ended_well(rank, observations)]
    return len(idle) > len(come) or (
        is_majority(len(ended), len(observations.roster.ranks)) and len(come) <= len(behind)
    )


def _ended_well(rank: int, observations: Observations) -> bool:
    exited = observations.roster.ranks[rank].exited
    return exited is not None and exited.exit_code == 0


def _convicting(waiting: set[int], fault: Fault, *remarks: str) -> Fault:
    return replace(
        fault,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=tuple(sorted(waiting)),
        victims=tuple(sorted((set(fault.culprits) | set(fault.victims)) - waiting)),
        certainty=Certainty.SUPPORTED,
        cause=Cause.USER_CODE,
        remarks=(*fault.remarks, *remarks),
    )


def _held_elsewhere(rank: int, observations: Observations) -> bool:
    """Does its stack or state tell what holds it, whatever the others do?"""
    activity = observations.activities.get(rank)
    return activity is not None and (activity.cause in TELLING or activity.kernel_tells)


def _went_on(rank: int, observations: Observations) -> bool:
    if observations.roster.ranks[rank].presence is Presence.EXITED:
        return _ended_well(rank, observations)
    activity = observations.activities.get(rank)
    return activity is not None and (activity.waits_for_ranks or activity.cause is Cause.TEARDOWN)
