"""Step 10: a fault becomes a finding, with culprits identified, the cause named and the evidence laid out."""

from dataclasses import replace
from datetime import UTC, datetime

from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.align.stacks.call_sites import parting_call
from collector.judge.by_stacks import no_record
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault
from collector.judge.hardware.gpus import device_of
from collector.judge.report.actions import action_for
from collector.judge.report.evidence import evidence_of
from collector.judge.report.next_steps import next_steps_for
from collector.judge.report.restarts import restart_evidence, restart_in_words
from collector.judge.report.summaries import summary_of
from collector.judge.slow.sampled_straggler import SampledStraggler, at_work
from collector.judge.slow.straggler import Straggler
from shared.answer.diagnosis import Culprit, Evidence, Finding, LagEvidence, StackEvidence, Where
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.rank_sets import fold, ranks_in_words

_NS = 1_000_000_000
_FATAL = {Kind.RANK_EXITED, Kind.RANK_MISSING}


def _barely(fault: Fault, observations: Observations, **_: object) -> Finding:
    """Who and what, where the words for it failed."""
    culprits = tuple(Culprit(rank=rank) for rank in fault.culprits)
    summary = fault.said or f"{fault.kind.replace('_', ' ')}: {ranks_in_words(fault.culprits or fault.victims)}"
    return Finding(
        kind=fault.kind,
        certainty=fault.certainty.level,
        certainty_reason=fault.certainty.reason,
        culprits=culprits,
        victims=fold(fault.victims),
        summary=summary,
    )


@costs_itself(_barely)
def finding_of(fault: Fault, observations: Observations, *, evidence: tuple[Evidence, ...] | None = None) -> Finding:
    """Put one fault into the contract's form; `evidence` replaces what the observations show for it."""
    cause = cause_of(fault, observations)
    since, lasted = _since(fault, observations) if evidence is None else (None, None)
    shown = evidence_of(fault, observations) if evidence is None else evidence
    shown += restart_evidence(observations)
    steps = next_steps_for(fault, cause, observations, shown)
    return Finding(
        kind=fault.kind,
        cause=cause,
        certainty=fault.certainty.level,
        certainty_reason=fault.certainty.reason,
        culprits=tuple(culprit_of(rank, observations) for rank in fault.culprits),
        victims=fold(fault.victims),
        group=fault.ref if fault.group is None else fault.group.ref,
        op=fault.op,
        sequence=fault.sequence,
        cycle=tuple(edge.wait for edge in fault.cycle),
        chain=fault.chain,
        links=fault.links,
        where=fault.where or _where(fault, cause, observations),
        since=since,
        lasted_seconds=lasted,
        summary=summary_of(fault, cause, observations),
        remarks=(*fault.remarks, *filter(None, (restart_in_words(observations),))),
        evidence=shown,
        action=action_for(fault, cause, observations, shown, steps),
        next_steps=steps,
    )


def _since(fault: Fault, observations: Observations) -> tuple[str | None, float | None]:
    """Return since when, in RFC 3339, and for how many seconds at the last look at a live job; None: not known.

    Without a record it stands at least so long. A straggler is late in every step, and has no beginning here.
    """
    if fault.kind is Kind.STRAGGLER:
        return None, None
    roster = observations.roster
    last = roster.last_look_ns if roster.live else None
    begun = [edge.created_ns - roster.ahead_ns(edge.waiter) for edge in (*fault.edges, *fault.cycle) if edge.created_ns]
    if begun:
        oldest = min(begun)
        lasted = None if last is None or last < oldest else (last - oldest) / _NS
        return rfc3339(oldest), None if lasted is None else round(lasted, 1)
    stall = observations.stall(fault.victims)
    if last is None or stall <= 0:
        return None, None
    return rfc3339(last - int(stall * _NS)), round(stall, 1)


def rfc3339(ns: int) -> str | None:
    """Return a time in words; None: what a job has recorded may be no time at all."""
    try:
        return datetime.fromtimestamp(ns / _NS, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def straggler_finding(straggler: Straggler, observations: Observations) -> Finding:
    """Put a straggler into the contract's form."""
    rank, group = straggler.rank, straggler.group
    lag = LagEvidence(
        ranks=str(rank),
        text=(
            f"in group {group.name} the others wait {straggler.lag_seconds:.2f} s longer than rank {rank} in each step "
            f"of {straggler.period_seconds:.2f} s; it waits least in {straggler.last_in} of {straggler.sequences}"
        ),
        group=group.ref,
        lag_seconds=round(straggler.lag_seconds, 4),
        period_seconds=round(straggler.period_seconds, 4),
        last_in=straggler.last_in,
        of=straggler.sequences,
    )
    late = f" for {straggler.lag_seconds:.2f} s of {straggler.period_seconds:.2f} s"
    return _slow(replace(_late(rank, Support.RECORD, observations), group=group, late=late), observations, lag)


def sampled_finding(straggler: SampledStraggler, observations: Observations) -> Finding:
    """Put a straggler that was seen in samples of stacks into the contract's form."""
    rank = straggler.rank
    text = (
        f"rank {rank} was waiting for others in {straggler.waiting_share:.0%} of {straggler.samples} looks, "
        f"every other rank in at least {straggler.others_share:.0%}"
    )
    seen = StackEvidence(ranks=str(rank), text=text, frames=tuple(map(place, observations.activities[rank].frames)))
    fault = replace(_late(rank, Support.STACKS, observations), remarks=(no_record(observations),))
    return _slow(fault, observations, seen)


def _late(rank: int, support: Support, observations: Observations) -> Fault:
    others = tuple(other for other in observations.roster.ranks if other != rank)
    return Fault(Kind.STRAGGLER, (rank,), others, how_sure(Kind.STRAGGLER, support))


def _slow(fault: Fault, observations: Observations, evidence: Evidence) -> Finding:
    """Describe the culprit as it was while it worked: in the last look it may wait like the others."""
    rank = fault.culprits[0]
    activity = at_work(observations.roster.ranks[rank])
    cause = Cause.UNKNOWN if activity.waits_for_ranks else activity.cause
    working = replace(observations, activities=observations.activities.with_changed({rank: activity}))
    return finding_of(replace(fault, cause=cause), working, evidence=(evidence,))


def culprit_of(rank: int, observations: Observations) -> Culprit:
    """Identify a rank as far as it is known; by its rank alone where nothing else is."""
    view = observations.roster.ranks[rank]
    identity = view.identity
    if identity is None:
        ras = observations.roster.ras
        host, pid = (None, None) if ras is None else ras.places.get(rank, (None, None))
        return Culprit(rank=rank, host=view.host or host, pid=pid if view.exited is None else view.exited.pid)
    return Culprit(
        rank=rank,
        local_rank=identity.local_rank,
        host=identity.host or view.host,
        pid=identity.pid,
        gpu=device_of(view, observations),
    )


def cause_of(fault: Fault, observations: Observations) -> Cause:
    """Why the culprits are where they are: the fault's own cause, else what they log, else what they do."""
    if fault.cause is not None:
        return fault.cause
    causes = {_cause_of_rank(rank, fault.kind, observations) for rank in fault.culprits}
    return causes.pop() if len(causes) == 1 else Cause.UNKNOWN


def _cause_of_rank(rank: int, kind: Kind, observations: Observations) -> Cause:
    view = observations.roster.ranks[rank]
    if view.exited is not None and view.exited.oom_killed:
        return Cause.OOM
    logged = view.exception
    if logged is not None and (view.gone or _tears_down(rank, observations)):
        return Cause.OOM if "out of memory" in logged.lower() else Cause.EXCEPTION
    if view.exited is not None and view.exited.signal is not None:
        return Cause.SIGNAL
    if view.exited is not None and view.exited.exit_code == 0:
        return Cause.TEARDOWN
    if kind in _FATAL or rank not in observations.activities:
        return Cause.UNKNOWN
    return observations.activities[rank].cause


def _tears_down(rank: int, observations: Observations) -> bool:
    activity = observations.activities.get(rank)
    return activity is not None and activity.cause in (Cause.TEARDOWN, Cause.EXCEPTION, Cause.UNKNOWN)


def _where(fault: Fault, cause: Cause, observations: Observations) -> Where | None:
    """Where the first culprit is that can be seen at all; of one that has ended by an exception, where it came from."""
    for rank in fault.culprits:
        activity = observations.activities.get(rank)
        where = None if activity is None else activity.where
        raised = observations.roster.ranks[rank].raised_at
        if raised is not None and cause is Cause.EXCEPTION and (where is None or where.user is None):
            return (where or Where()).model_copy(update={"user": raised})
        if activity is not None and where is not None:
            call = parting_call(activity.frames, (seen.frames for seen in observations.seen(fault.victims)))
            return where.model_copy(update={"call": None if call is None else place(call)})
    return None
