"""Step G of the verdict: may a fault be a pause of a healthy job? Time tells, and how much of it depends.

Of a live job, in this order:

1. Who waits for work is idle, or cut off: nobody can tell, unless others await its own part on record. Nor of ranks
   that all wait for devices on which nothing is in flight on record: these may compute, or replay a CUDA graph, which
   the GPUs alone tell. Who runs another rank's call goes on. A process outside the job that is waited for is judged as
   a rank would be, where it was examined; one that waits for work, or for its own peers, and one that nobody examined,
   has as long as who works.
2. What cannot pass, such as an exit or calls that do not match, needs no time.
3. Who demonstrably works (`align/work/`) holds the others up, once that is longer than the job usually pauses; it is
   called hung much later, and never for certain (`slow/held_up.py`). So is who moves, though with what is not seen.
4. Who stands still while others wait: some seconds, or longer than the job usually pauses.
5. Who starts, or is where a healthy rank may be for a while: a minute, or several usual pauses.
6. Who is at what takes minutes in a healthy job, such as an evaluation on one rank: as long as that takes.
"""

from collections.abc import Iterator, Sequence

from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import HELD, Presence
from collector.align.stacks.activity import other_activities
from collector.align.stacks.phases import ALLOWED_SECONDS, WORK_BY_CAUSE, Phase, phase_of_stack
from collector.align.work.trails import is_stuck
from collector.align.work.values import Work
from collector.judge.by_stacks import may_be_slow
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import NEVER_PASSES, Fault
from collector.judge.hardware.descriptors import under_way
from collector.judge.hardware.odd_parts import spin
from collector.judge.moment_of_dumps import doubt_of_files
from collector.judge.report.findings import cause_of, finding_of, rfc3339
from collector.judge.report.headline import Interpretation
from collector.judge.report.summaries import summary_of
from collector.judge.slow.held_up import HungFrom, at_work, held_up, when_due, works_elsewhere
from collector.judge.tempered import tempered
from shared.answer.words import Cause, Kind, Verdict
from shared.isolation import costs_itself
from shared.plural import either, ranks_with
from shared.wire.snapshot import RankSnapshot
from shared.wire.stacks import Stacks


@costs_itself(lambda *_: Interpretation(Verdict.CANNOT_TELL, "unhang failed to judge whether it is a pause"))
def doubt_of_pause(fault: Fault, observations: Observations) -> Interpretation | None:
    """Is the pause one that the job's own rhythm explains? Returns the verdict in that case, None if it is a hang."""
    if not observations.roster.live:
        return doubt_of_files(fault, observations)
    motion = observations.motion
    late = observations.late_in_only_look
    if late and not fault.culprits and fault.certainty.is_suspicion:
        once = "the machine is overloaded: in all the time there was, each rank was looked at once at most"
        return Interpretation(Verdict.CANNOT_TELL, f"{once}, and {ranks_with(late, 'was', 'were')} not read to the end")
    suspects = _suspects(fault, observations)
    stall = _stall(fault, observations)
    if fault.is_owed_elsewhere:
        return _owed_elsewhere(fault, stall, observations)  # 1
    elsewhere = _idle_or_called(fault, suspects, stall, observations)
    if elsewhere is not None or _devices_alone(fault, observations):
        return elsewhere or Interpretation(Verdict.CANNOT_TELL, _devices_in_words(fault.victims))  # 1
    phase = None if _cannot_pass(fault, observations) else phase_at_work(suspects, observations)
    due = when_due(fault, observations, phase)
    works = at_work(fault, observations, due, stall)
    needed = motion.needed(busy=_is_starting(fault)) if works else _needed(fault, suspects, phase, observations)
    unclear = _was_not_seen_twice(fault, suspects, observations) or _moves(fault, suspects, observations)
    unclear = unclear or any(_may_be_sent(rank, observations) for rank in suspects)
    needed = max(needed, due.seconds) if unclear and not works else needed
    lasting = stall if works else min([stall, *_since_spoken(suspects, observations)])
    if works and stall >= needed:
        return None if stall >= due.seconds else _held_up(fault, works, due, stall, observations)  # 3
    sent = under_way(fault, observations) if lasting >= needed and fault.kind is Kind.STUCK_TOGETHER else None
    if sent is not None or (lasting >= needed and _is_unseen(fault)):
        needed = motion.needed(busy=True)
    if lasting >= needed:
        return None
    if motion.usual_gap_seconds is not None and stall <= motion.usual_gap_seconds:
        return Interpretation(Verdict.NOT_HUNG, "its pause is no longer than usual", state="running")
    return Interpretation(
        Verdict.CANNOT_TELL,
        "" if fault.culprits else summary_of(fault, cause_of(fault, observations), observations),
        waited_for=suspects,
        stall=stall,
        decided_after=needed - lasting,
        sent=sent,
        phase=phase,
        chain=fault.chain,
    )


def _since_spoken(suspects: tuple[int, ...], observations: Observations) -> Iterator[float]:
    """Yield for how long those who wait at one connection have said and heard nothing: who asks again has moved."""
    for rank in suspects:
        process = observations.roster.ranks[rank].process
        told = [] if process is None else [at.quiet_seconds for at in process.awaits]
        if len(told) == 1 and told[0] is not None:
            yield told[0]


def _suspects(fault: Fault, observations: Observations) -> tuple[int, ...]:
    """Whom the others wait for: where nobody is named each that is no victim, also one of which no stack was read."""
    others = {view.rank for view in observations.roster.present()} - {*fault.victims}
    return tuple(sorted({*fault.culprits} or others or observations.activities))


def _idle_or_called(
    fault: Fault, suspects: tuple[int, ...], stall: float, observations: Observations
) -> Interpretation | None:
    """Step 1."""
    if any(seen.may_be_idle for seen in observations.seen(suspects)):
        return Interpretation(Verdict.CANNOT_TELL, "", waited_for=suspects, stall=stall, idle=True)
    outside = tuple(rank for rank in suspects if rank not in fault.victims)
    if outside and all(map(observations.works_for_another, outside)):
        work = f"{ranks_with(outside, 'is', 'are')} at work in a remote procedure call"
        return Interpretation(Verdict.NOT_HUNG, work, state="running")
    return None


def _owed_elsewhere(fault: Fault, stall: float, observations: Observations) -> Interpretation | None:
    due, trails = when_due(fault, observations, None), fault.trails
    works = works_elsewhere(trails, due.seconds - stall)
    held = all(trail.cannot_end for trail in trails)
    still = all(trail.cannot_end or (trail.end is not None and is_stuck(trail.end)) for trail in trails)
    needed = observations.motion.needed(busy=not (held or works)) if still or works else due.seconds
    if stall >= due.seconds or (stall >= needed and not works):
        return None
    if works and stall >= needed:
        return _held_up(fault, works, due, stall, observations)
    waited_for = tuple(dict.fromkeys(trail.rank for trail in trails))
    decided = needed - stall if still and not works else None
    return Interpretation(
        Verdict.CANNOT_TELL,
        "",
        waited_for=waited_for,
        stall=stall,
        decided_after=decided,
        trails=trails,
        chain=fault.chain,
    )


def _devices_alone(fault: Fault, observations: Observations) -> bool:
    by_stacks = fault.kind is Kind.STUCK_TOGETHER and fault.certainty == how_sure(fault.kind, Support.STACKS)
    return (
        by_stacks
        and all(map(observations.awaits_device_alone, fault.victims))
        and not all(spin(observations.gpus_of(rank)) for rank in fault.victims)
    )


def _devices_in_words(ranks: Sequence[int]) -> str:
    where = f"{ranks_with(ranks, 'waits', 'wait')} for {either(ranks, 'its device', 'their devices')}"
    return f"{where}, and nothing is in flight on record: devices may be at work, or replay a CUDA graph"


def _needed(fault: Fault, suspects: tuple[int, ...], phase: Phase | None, observations: Observations) -> float:
    """For how many seconds all must have stood still, where nobody demonstrably works."""
    at_once = fault.kind in NEVER_PASSES and (fault.mismatch is not None or fault.kind is not Kind.COLLECTIVE_MISMATCH)
    busy = not _cannot_pass(fault, observations) and _takes_time(fault, suspects, observations)
    needed = observations.motion.needed(busy=busy, at_once=at_once)  # 2, 4, 5
    return needed if phase is None else max(needed, ALLOWED_SECONDS[phase])  # 6


def _cannot_pass(fault: Fault, observations: Observations) -> bool:
    """Is it on record, or were they stopped, wherever they were? Then it does not matter what they are at."""
    ranks = (observations.roster.ranks[rank] for rank in fault.culprits)
    return fault.mismatch is not None or (bool(fault.culprits) and all(view.presence in HELD for view in ranks))


def _held_up(
    fault: Fault, works: dict[int, tuple[Work, ...]], due: HungFrom, stall: float, observations: Observations
) -> Interpretation:
    last = observations.roster.last_look_ns
    hung_from = None if last is None else rfc3339(last + int((due.seconds - stall) * 1e9))
    told = tempered(held_up(fault, works, due, stall, observations), observations)
    finding = finding_of(told, observations)
    return Interpretation(Verdict.SLOW, "", findings=(finding.model_copy(update={"hung_from": hung_from}),))


def phase_at_work(ranks: Sequence[int], observations: Observations) -> Phase | None:
    """Return what all of some ranks are at work on, by where they are now, if it may take a healthy job minutes."""
    phases = {_phase(rank, observations) for rank in ranks}
    return phases.pop() if len(phases) == 1 else None


def _phase(rank: int, observations: Observations) -> Phase | None:
    if observations.motion.by_rank.get(rank) is not Motion.BUSY or rank not in observations.activities:
        return None
    activity = observations.activities[rank]
    return WORK_BY_CAUSE.get(activity.cause) or phase_of_stack(activity.frames)


def _takes_time(fault: Fault, suspects: tuple[int, ...], observations: Observations) -> bool:
    """Are those who are waited for at work, starting, or where a healthy rank may be for a while?"""
    motions = {rank: observations.motion.by_rank[rank] for rank in suspects if rank in observations.motion.by_rank}
    working = [rank for rank, what in motions.items() if what is Motion.BUSY and not observations.may_wait(rank)]
    stuck = {trail.rank for trail in fault.trails if trail.cannot_end}
    may_pass = any(seen.may_pass for seen in observations.seen(rank for rank in suspects if rank not in stuck))
    unseen = set(motions.values()) == {Motion.UNKNOWN}
    return bool(working) or may_pass or unseen or _is_starting(fault) or may_be_slow(fault, observations)


def _was_not_seen_twice(fault: Fault, suspects: tuple[int, ...], observations: Observations) -> bool:
    """Was one who is waited for read too late to tell whether it moves, as on a busy machine, where others were not?"""
    if _is_starting(fault):
        return any(not sibling.compared for sibling in observations.siblings)
    if fault.kind not in (Kind.RANK_NOT_JOINED, Kind.P2P_UNMATCHED):
        return False
    running = (rank for rank in suspects if observations.roster.ranks[rank].presence is Presence.RUNNING)
    return any(observations.moves_unseen(rank) for rank in running if rank not in fault.victims)


def _moves(fault: Fault, suspects: tuple[int, ...], observations: Observations) -> bool:
    """Does one move between the looks, with what is not seen? It is not hung before one that works would be.

    What moves in a circle stands on one line, or asks for a file or a lock, and is seen to. Where a mere suspicion
    names nobody, all must stand still, those who wait as well.
    """
    if _is_starting(fault) or _cannot_pass(fault, observations):
        return False
    motions = observations.motion.by_rank
    if not fault.culprits and fault.certainty.is_suspicion:
        return any(motions.get(view.rank) is Motion.BUSY for view in observations.roster.present())
    busy = (rank for rank in suspects if motions.get(rank) is Motion.BUSY)
    return not all(map(observations.may_wait, busy))


def _may_be_sent(rank: int, observations: Observations) -> bool:
    """May the work for which it waits come over a connection, its own or that of another of its threads?"""
    seen, view = observations.activities.get(rank), observations.roster.ranks[rank]
    if seen is None or not seen.is_owed:
        return False
    ends = () if view.process is None else view.process.awaits
    return any(observations.leads_out(rank, at) for at in ends) or any(
        each.cause is Cause.NETWORK for each in other_activities(view.stacks)
    )


def _is_unseen(fault: Fault) -> bool:
    """Is all that is held against a rank that its node is silent? It may be at work there."""
    return fault.kind is Kind.RANK_UNREACHABLE and not fault.named_by


def _is_starting(fault: Fault) -> bool:
    return fault.kind is Kind.STARTUP_INCOMPLETE


def _stall(fault: Fault, observations: Observations) -> float:
    if _is_starting(fault):
        newest = [look for view in observations.roster.present() for look in view.looks[-1:]]
        ages = [age for look in newest for age in _ages(look)]
        return min(ages, default=observations.motion.seconds)
    return observations.stall(fault.victims)


def _ages(look: RankSnapshot) -> Iterator[float]:
    """Seconds since the rank's process began, and those that it has started: a job that starts has waited no longer
    than its youngest rank, and whom rank 0 starts itself becomes one once it has imported.
    """
    children = (child.process.started_at for child in look.children if isinstance(child.stacks, Stacks))
    for begun in (look.identity.started_at, *children):
        if begun is not None and look.looked_at_ns is not None:
            yield max(0.0, look.looked_at_ns / 1e9 - begun)
