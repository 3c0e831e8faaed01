"""What a job is at work on while it stands still, by the stacks in a diagnosis, and how long that may take.

A checkpoint, a compilation or an evaluation makes the other ranks wait as a hang does. An alarm is held back for as
long as a healthy job takes for it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from collector.align.stacks.phases import ALLOWED_SECONDS, WORK_BY_CAUSE, Phase, phase_of_stack
from collector.detect.job_view import JobView
from collector.detect.limits import CONFIRM_SECONDS, UNREACHABLE_SECONDS
from collector.detect.usual_pauses import UsualPauses
from shared.answer.diagnosis import Diagnosis, Finding, Place, Where
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.rank_sets import unfold

_BY_CAUSE = {
    **WORK_BY_CAUSE,
    Cause.FILESYSTEM: Phase.STORAGE,
    Cause.DATALOADER: Phase.STORAGE,
}

_NEVER_WORK = frozenset(
    {Kind.RANK_EXITED, Kind.RANK_STOPPED, Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK}
)
"""What no phase of a healthy job looks like."""
_UNSEEN = frozenset({Kind.RANK_UNREACHABLE, Kind.RANK_MISSING})


def phase_of(diagnosis: Diagnosis, *, has_begun: bool) -> Phase | None:
    """Return what the culprit of the first finding is at work on, else what some ranks are; None: nothing of these.

    `has_begun`: has the job taken steps? Who waits in a store for a key between two steps does not start any more.
    """
    if diagnosis.findings:
        finding = diagnosis.findings[0]
        if finding.kind in _NEVER_WORK:
            return None
        if finding.kind is Kind.STARTUP_INCOMPLETE:
            return Phase.FIRST_STEP
        by_cause = _BY_CAUSE.get(finding.cause)
        by_stack = next(filter(None, map(phase_of_stack, _stacks(diagnosis, finding))), None)
        may_start = diagnosis.verdict is Verdict.HUNG and finding.kind is not Kind.REQUESTS_UNANSWERED
        return by_cause or by_stack or (Phase.FIRST_STEP if may_start and not has_begun else None)
    return next(filter(None, (phase_of_stack(each.frames) for each in diagnosis.stack_classes)), None)


def has_begun(view: JobView, fault: Finding | None, went_on_for: float) -> bool:
    """Has a job taken steps, by its marks or else by what was found? `went_on_for`: seconds before it stood still."""
    found = 0 if fault is None else fault.sequence or 0
    return (view.highest if view.highest >= 0 else found) > 1 or went_on_for > ALLOWED_SECONDS[Phase.FIRST_STEP]


def held_for(diagnosis: Diagnosis, phase: Phase | None, pauses: UsualPauses) -> float:
    """Return how long ranks must have stood still until the first finding is an alarm, in seconds.

    A rank that keeps others waiting may do what made it do so for as long before; clients wait for no pause of ranks.
    """
    finding = diagnosis.findings[0]
    if finding.kind is Kind.REQUESTS_UNANSWERED:
        return 0.0 if phase is None else ALLOWED_SECONDS[phase]
    allowed = 0.0 if finding.kind in _NEVER_WORK else pauses.outlived
    if phase is not None and finding.kind not in _NEVER_WORK:
        allowed = max(ALLOWED_SECONDS[phase], pauses.allowance)
    return allowed


def held_unseen(view: JobView, unseen_since: float | None, still: float, now: float) -> float:
    """Return for how long an alarm is held back where ranks could not be looked at: their node may stand still.

    That counts from when it fell silent. One that tells of itself and cannot be asked may stand still again and
    again. Of ranks that nobody has ever told of, it counts from when the others stopped.
    """
    if unseen_since is None or view.quietest is None:
        return 0.0
    told = len(view.ranks) + len(view.exited)
    silent = max(now - view.quietest, (now - unseen_since) / 2)
    return UNREACHABLE_SECONDS - (silent if told >= (view.world_size or 0) else still)


def is_last_chance(diagnosis: Diagnosis, timeout: float | None, still: float) -> bool:
    """Is it sure, by two looks, and would the job's own timeout have ended it before it is diagnosed again?

    Of what no healthy job looks like two sources are enough: ranks that wait for each other may not be in any record.
    """
    finding, again = diagnosis.findings[0], CONFIRM_SECONDS + 2 * diagnosis.took_seconds
    told = finding.kind in _NEVER_WORK and finding.certainty is Certainty.SUPPORTED
    return (told or finding.certainty is Certainty.PROVEN) and timeout is not None and timeout - still < again


def is_held_up(diagnosis: Diagnosis | None) -> bool:
    """Do others wait for a rank that demonstrably works? That is no alarm."""
    return diagnosis is not None and any(finding.kind is Kind.HELD_UP for finding in diagnosis.findings)


def hung_in(diagnosis: Diagnosis) -> float:
    """Return after how many seconds, from its last look on, who works would be called hung; infinite: nobody does."""
    for finding in diagnosis.findings:
        if finding.hung_from is not None and finding.since is not None and finding.lasted_seconds is not None:
            apart = datetime.fromisoformat(finding.hung_from) - datetime.fromisoformat(finding.since)
            return max(0.0, apart.total_seconds() - finding.lasted_seconds)
    return float("inf")


def is_seen_in_part(diagnosis: Diagnosis) -> bool:
    """Were there ranks that could not be looked at? On a busy machine that may be otherwise the next time."""
    coverage = diagnosis.coverage
    unseen = any(finding.kind in _UNSEEN for finding in diagnosis.findings[:1])
    return unseen or coverage.answered < max(coverage.seen, coverage.expected or 0)


def _stacks(diagnosis: Diagnosis, finding: Finding) -> Iterator[Sequence[Place]]:
    """Return the stacks of the culprits; where nobody is named, those of the ranks that do not wait."""
    where = finding.where or Where()
    yield from ((place,) for place in (where.user, where.call, where.library) if place is not None)
    culprits, victims = set(finding.culprit_ranks), set(unfold(finding.victims))
    for each in diagnosis.stack_classes:
        ranks = unfold(each.ranks)
        if not culprits.isdisjoint(ranks) if culprits else victims.isdisjoint(ranks):
            yield each.frames
