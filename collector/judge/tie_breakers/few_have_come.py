"""Step 6, roots: most are behind. Where a few wait for the many, the few may be ahead by a call of their own."""

from collector.align.groups.device_queues import unfinished
from collector.align.groups.process_groups import siblings_of
from collector.align.groups.table import GroupView
from collector.align.observations import Observations
from collector.align.roster import ByRank, Roster
from collector.align.stacks.activity import Activity
from collector.align.thresholds import is_majority
from collector.judge.certainty import Support
from collector.judge.fault import TELLING, Fault
from collector.judge.tie_breakers.call_order import CallOrders
from collector.judge.tie_breakers.one_too_many import undecided_pair
from collector.judge.tie_breakers.skipped_call import shift_of
from shared.answer.words import Kind
from shared.isolation import costs_itself


@costs_itself(lambda fault, observations, programs: fault.without_culprits(), part="few have come")
def turned(fault: Fault, observations: Observations, programs: CallOrders) -> Fault:
    """Return the fault with the few as culprits, where these are shown to have made a call of their own."""
    if fault.kind is Kind.P2P_UNMATCHED:
        return undecided_pair(fault, observations)
    if fault.group is None or fault.kind not in (Kind.RANK_NOT_JOINED, Kind.RANK_EXITED):
        return fault
    waiting = {edge.waiter for edge in fault.edges if edge.group is fault.group and edge.sequence == fault.sequence}
    if not _few_have_come(fault.group, fault.sequence, observations):
        return fault
    shifts = [shift_of(fault.group, rank, fault.culprits[0]) for rank in sorted(waiting)]
    others_agree = len(fault.group.lanes) > 2 or bool(siblings_of(fault.group, observations.groups))
    if others_agree and all(shift is not None and shift.by < 0 for shift in shifts):
        return fault.convicting(waiting, Support.PART_OF_RECORD, *fault.remarks, *map(str, shifts))
    strays = programs.strays(waiting)
    if len(strays) == len(waiting):
        return fault.convicting(waiting, Support.PART_OF_RECORD, *fault.remarks, *map(str, strays))
    if fault.kind is Kind.RANK_EXITED or all(_held_elsewhere(rank, observations.activities) for rank in fault.culprits):
        return fault
    remark = "most of the group has not issued this operation: they are blocked, or the few that wait went astray"
    if len(waiting) == len(fault.culprits) == 1:
        remark = "one rank is known to have issued this operation and one not to: either may be the odd one"
    return fault.resting_on(Support.TIE, culprits=(), remarks=(*fault.remarks, remark))


def _few_have_come(group: GroupView, sequence: int | None, observations: Observations) -> bool:
    """Have more members, with nothing in flight that would keep them, not come to this operation than have?

    In a group of two either side may be the odd one: groups of the same role on other ranks are counted, too. Of one
    that is larger, or may be, and of which two are seen, one against one is a tie. Where most of the job has ended
    well, those who are left to wait are the odd ones, unless most have made that call.
    """
    if sequence is None:
        return False
    same, size = [group, *siblings_of(group, observations.groups)], len(group.members)
    behind = {rank for other in same for rank in other.absent_at(sequence)}
    come = {rank for other in same for rank in other.lanes.keys() - other.absent_at(sequence)}
    waiting = {rank for other in same for rank, lane in other.lanes.items() if lane.pending}
    idle = {rank for rank in behind if not unfinished(observations.traces[rank])}
    ended = [rank for rank in observations.roster.ranks if _ended_well(rank, observations.roster)]
    may_be_more = size > 2 or (group.inferred and observations.roster.world_size is None)
    one_each = len(idle) == len(come) == 1 and may_be_more
    return (
        one_each
        or len(idle) > len(come)
        or (is_majority(len(ended), len(observations.roster.ranks)) and len(come | waiting) <= len(behind - waiting))
    )


def _ended_well(rank: int, roster: Roster) -> bool:
    exited = roster.ranks[rank].exited
    return exited is not None and exited.exit_code == 0


def _held_elsewhere(rank: int, activities: ByRank[Activity]) -> bool:
    """Does its stack or state tell what holds it, whatever the others do?"""
    activity = activities.get(rank)
    return activity is not None and (activity.cause in TELLING or activity.kernel_tells)
