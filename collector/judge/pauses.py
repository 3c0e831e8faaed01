"""Step G of the verdict: may a fault be a pause of a healthy job? Time tells, and how much of it depends.

1. What cannot pass, such as an exit or calls that do not match, needs no time.
2. Who stands still while others wait: some seconds, or longer than the job usually pauses.
3. Who is at work, or where a healthy rank may be for a while: a minute, or longer than several usual pauses.
4. Who is at work on what takes minutes in a healthy job, such as an evaluation on one rank: as long as that takes.
"""

from collections.abc import Sequence

from collector.align.observations import Observations
from collector.align.progress import Motion, written_after
from collector.align.stacks.activity import place
from collector.align.stacks.phases import ALLOWED_SECONDS, WORK_BY_CAUSE, Phase, phase_of_stack, prepares_data
from collector.align.thresholds import BUSY_SECONDS
from collector.judge.by_stacks import may_be_slow
from collector.judge.fault import Fault
from collector.judge.hardware.descriptors import under_way
from collector.judge.report.findings import cause_of
from collector.judge.report.headline import Interpretation
from collector.judge.report.summaries import summary_of
from shared.answer.words import Kind, Verdict
from shared.isolation import costs_itself
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.snapshot import RankSnapshot


@costs_itself(lambda *_: Interpretation(Verdict.CANNOT_TELL, "unhang failed to judge whether it is a pause"))
def doubt_of_pause(fault: Fault, observations: Observations) -> Interpretation | None:
    """Is the pause one that the job's own rhythm explains? Returns the verdict in that case, None if it is a hang."""
    if not observations.roster.live:
        return _doubt_of_files(fault, observations)
    motion = observations.motion
    suspects = tuple(sorted({*fault.culprits} or observations.activities))
    stall = _stall(fault, observations)
    if any(seen.may_be_idle for seen in observations.seen(suspects)):
        return Interpretation(Verdict.CANNOT_TELL, "", waited_for=suspects, stall=stall, idle=True)
    outside = tuple(rank for rank in suspects if rank not in fault.victims)
    if outside and all(map(observations.works_for_another, outside)):
        work = f"{ranks_with(outside, 'is', 'are')} at work in a remote procedure call"
        return Interpretation(Verdict.NOT_HUNG, work, state="running")
    recorded = fault.mismatch is not None
    at_once = fault.kind in _NEVER_PASSES and (recorded or fault.kind is not Kind.COLLECTIVE_MISMATCH)
    may_take = not recorded and fault.kind is not Kind.RANK_STOPPED  # wherever it was stopped
    busy = may_take and _takes_time(fault, suspects, observations)
    needed = motion.needed(busy=busy, at_once=at_once)
    phase = phase_at_work(suspects, observations) if busy else None
    if phase is not None:
        needed = max(needed, ALLOWED_SECONDS[phase])
    sent = under_way(fault, observations) if stall >= needed and fault.kind is Kind.STUCK_TOGETHER else None
    if sent is not None or (stall >= needed and _is_unseen(fault)):
        needed = motion.needed(busy=True)
    if stall >= needed:
        return None
    if motion.usual_gap_seconds is not None and stall <= motion.usual_gap_seconds:
        return Interpretation(Verdict.NOT_HUNG, "its pause is no longer than usual", state="running")
    return Interpretation(
        Verdict.CANNOT_TELL,
        "" if fault.culprits else summary_of(fault, cause_of(fault, observations), observations),
        waited_for=suspects,
        stall=stall,
        decided_after=needed - stall,
        sent=sent,
        phase=phase,
    )


def phase_at_work(ranks: Sequence[int], observations: Observations) -> Phase | None:
    """Return what all of some ranks are at work on, by where they are now, if it may take a healthy job minutes."""
    phases = {_phase(rank, observations) for rank in ranks}
    return phases.pop() if len(phases) == 1 else None


def _phase(rank: int, observations: Observations) -> Phase | None:
    if observations.motion.by_rank.get(rank) is not Motion.BUSY or rank not in observations.activities:
        return None
    activity = observations.activities[rank]
    return WORK_BY_CAUSE.get(activity.cause) or phase_of_stack(activity.frames)


def _doubt_of_files(fault: Fault, observations: Observations) -> Interpretation | None:
    """Had those who wait waited for longer than a job that runs may, when their dumps were written?

    A small difference of times excuses. That a file is old accuses nobody: it may be a copy. Of stacks alone, who is at
    work that the others rightly wait for until it is done looks the same in a job that runs.
    """
    prepared = _prepared_for_all(fault, observations)
    if prepared:
        return Interpretation(Verdict.CANNOT_TELL, prepared)
    if not fault.edges or (fault.kind in _NEVER_PASSES and fault.kind is not Kind.RANK_EXITED):
        return None
    waits = (written_after(observations.roster.ranks[edge.waiter], edge.created_ns) for edge in fault.edges)
    waited = max((each for each in waits if each is not None), default=None)
    needed = min(observations.motion.needed(busy=False), BUSY_SECONDS)
    moved = observations.motion.between_files
    if (waited is None and not moved) or (waited is not None and waited >= needed):
        return None
    since = "" if waited is None else f", and no rank had waited for {waited:.2f} s when the last was written"
    if moved:
        who = ranks_in_words(sorted(moved))
        return Interpretation(Verdict.CANNOT_TELL, f"{who} moved between the last two dumps{since}")
    reason = f"when the dumps were written, no rank had waited for longer than {waited:.2f} s, as in any job that runs"
    return Interpretation(Verdict.CANNOT_TELL, reason)


def _prepared_for_all(fault: Fault, observations: Observations) -> str:
    """Say who prepares data while the others wait, and where; empty where that is not all that is seen."""
    seen = [observations.activities.get(rank) for rank in fault.culprits]
    if fault.kind is not Kind.RANK_NOT_JOINED or fault.edges or not seen:
        return ""
    if any(each is None or not prepares_data(each.frames) for each in seen):
        return ""
    at = next((f" at {place(each.user)}" for each in seen if each is not None and each.user is not None), "")
    who, others = ranks_with(fault.culprits, "is", "are"), ranks_with(fault.victims, "waits", "wait")
    return (
        f"{who} preparing a data set{at}, and {others} for that, as in many a job that starts: a second look shows "
        "whether it goes on"
    )


def _takes_time(fault: Fault, suspects: tuple[int, ...], observations: Observations) -> bool:
    """Are those who are waited for at work, starting, or where a healthy rank may be for a while?"""
    motions = {rank: observations.motion.by_rank[rank] for rank in suspects if rank in observations.motion.by_rank}
    working = [rank for rank, what in motions.items() if what is Motion.BUSY and not observations.may_wait(rank)]
    may_pass = any(seen.may_pass for seen in observations.seen(suspects))
    unseen = set(motions.values()) == {Motion.UNKNOWN}
    return bool(working) or may_pass or unseen or _is_starting(fault) or may_be_slow(fault, observations)


def _is_unseen(fault: Fault) -> bool:
    """Is all that is held against a rank that its node is silent? It may be at work there."""
    return fault.kind is Kind.RANK_UNREACHABLE and not fault.named_by


def _is_starting(fault: Fault) -> bool:
    return fault.kind is Kind.STARTUP_INCOMPLETE


def _stall(fault: Fault, observations: Observations) -> float:
    if _is_starting(fault):
        ages = [_age(look) for view in observations.roster.present() for look in view.looks[-1:]]
        return min((age for age in ages if age is not None), default=observations.motion.seconds)
    return observations.stall(fault.victims)


def _age(look: RankSnapshot) -> float | None:
    """Seconds since the rank's process began: a job that starts has waited no longer than its youngest rank."""
    begun = look.identity.started_at
    return None if begun is None or look.looked_at_ns is None else max(0.0, look.looked_at_ns / 1e9 - begun)


_NEVER_PASSES = frozenset({Kind.RANK_EXITED, Kind.RANK_STOPPED, Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION})
"""Kinds of faults that time does not heal: they need no stall to be told from a pause."""
