"""Step H of the verdict: how sure a fault is that rests, besides, on something that may not be so."""

from dataclasses import replace

from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import Roster
from collector.align.wait_states import WaitState
from collector.judge.certainty import TABLE, Support, unproven
from collector.judge.fault import Fault
from shared.answer.words import Kind
from shared.isolation import costs_itself

_OF_RECORDS = (Support.RECORD, Support.ROOTS, Support.PART_OF_RECORD, Support.RECORD_AND_STACKS)


@costs_itself(lambda fault, observations: fault.resting_on(Support.PART_FAILED))
def tempered(fault: Fault, observations: Observations) -> Fault:
    """That a rank at work will not come is read from the time it takes, which proves nothing; nor does a guess."""
    if _rests_on_counters(fault, observations):
        fault = replace(fault, certainty=TABLE[None, Support.COUNTERS])
    may_come = fault.kind is Kind.RANK_NOT_JOINED and any(_may_come(rank, observations) for rank in fault.culprits)
    if not may_come and not _rests_on_inference(fault, observations.roster):
        return fault
    trails = [observations.trail(rank) for rank in fault.culprits] if may_come else []
    ends = bool(trails) and all(trail is not None and trail.cannot_end for trail in trails)
    support = Support.OTHER_END if ends else Support.MAY_COME if may_come else Support.INFERRED_GROUP
    return replace(fault, certainty=unproven(fault.certainty, support))


def _rests_on_counters(fault: Fault, observations: Observations) -> bool:
    """Would it rest on flight records, and were none kept of some whose waits or calls it tells of?"""
    involved = {edge.waiter for edge in fault.edges} | {*(fault.mismatch.ranks if fault.mismatch is not None else ())}
    of_records = fault.certainty in map(TABLE.get, ((None, each) for each in _OF_RECORDS))
    return of_records and any(rank in observations.traces and rank not in observations.recorded for rank in involved)


def _may_come(rank: int, observations: Observations) -> bool:
    """Is it at work, or where a healthy rank may be for a while, or was it not seen whole, so that it may be?"""
    activity = observations.activities.get(rank)
    if activity is None:
        return False
    if observations.roster.live and (
        observations.state(rank) is WaitState.UNKNOWN
        or observations.roster.ranks[rank].process is None
        or observations.moves_unseen(rank)
    ):
        return True
    busy = observations.motion.by_rank.get(rank) is Motion.BUSY and not observations.may_wait(rank)
    return busy or activity.may_pass


def _rests_on_inference(fault: Fault, roster: Roster) -> bool:
    """Does it depend on a group whose members were inferred? The default group is the world, once its size is known."""
    if fault.kind in (Kind.RANK_STOPPED, Kind.RANK_EXITED):
        return False
    culprits = set(fault.culprits)  # how the others wait for each other shows who is held up, and not by whom
    told = [edge for edge in fault.edges if not culprits or culprits & set(edge.holders)]
    groups = [edge.group for edge in (*told, *fault.cycle)] + ([fault.group] if fault.group is not None else [])
    return any(group.inferred and not (group.is_default and roster.world_size is not None) for group in groups)
