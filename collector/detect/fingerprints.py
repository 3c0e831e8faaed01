"""What makes two verdicts the same fault, and the incident that a verdict would be."""

from datetime import datetime, timedelta

from collector.detect.roots import roots_of
from shared.answer.diagnosis import Coverage, Diagnosis, Finding
from shared.answer.incidents import Fingerprint, Incident, IncidentState
from shared.answer.words import Cause, Kind, Verdict
from shared.rank_sets import fold

_MOST_HOSTS = 64
"""Of one incident."""


def fault_of(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding that an alarm would be about; None: there is nothing to alarm anybody about."""
    return diagnosis.findings[0] if diagnosis.verdict is Verdict.HUNG and diagnosis.findings else None


def slowed_by(diagnosis: Diagnosis) -> Finding | None:
    """Return which rank makes the others of a job wait that goes on; None: none does."""
    return next((each for each in diagnosis.findings if each.kind is Kind.STRAGGLER), None)


def is_over(diagnosis: Diagnosis) -> bool:
    """Is no rank of the job left?"""
    return diagnosis.verdict is Verdict.DIED or diagnosis.state in ("finished", "ended")


def death_of(diagnosis: Diagnosis) -> Finding | None:
    """Return how a job died; None: it did not, or somebody ended it, who knows of it."""
    died = [each for each in diagnosis.findings if diagnosis.verdict is Verdict.DIED]
    return died[0] if died and died[0].cause is not Cause.CANCELLED else None


def fingerprint_of(finding: Finding, job: str, user: str | None) -> Fingerprint:
    """Return the fingerprint of a finding about that user's job."""
    return Fingerprint(
        job=job,
        user=user,
        kind=finding.kind,
        culprits=fold(finding.culprit_ranks),
        group="" if finding.group is None else finding.group.name,
        sequence=finding.sequence,
    )


def incident_of(
    diagnosis: Diagnosis, finding: Finding, fingerprint: Fingerprint, *, trigger: str, timeout: float | None = None
) -> Incident:
    """Return the incident to report to the store, which gives it its id and times.

    `timeout`: of the operations that its ranks wait in, in seconds.
    """
    hosts = sorted({culprit.host for culprit in finding.culprits if culprit.host is not None})[:_MOST_HOSTS]
    user = None if finding.where is None else finding.where.user
    return Incident(
        id="",
        job=diagnosis.job or fingerprint.job,
        user=fingerprint.user,
        owner=diagnosis.owner,
        state=IncidentState.OPENED,
        kind=finding.kind,
        cause=finding.cause,
        certainty=finding.certainty,
        headline=diagnosis.headline,
        action=diagnosis.action,
        fingerprint=fingerprint,
        key=fingerprint.key,
        culprits=finding.culprits,
        hosts=tuple(hosts),
        place=f"{user.file}:{user.line}" if user is not None and user.line else "",
        opened_at="",
        seen_at="",
        still_since=finding.since,
        times_out_at=_end_of(finding.since, timeout),
        died=diagnosis.verdict is Verdict.DIED,
        trigger=trigger,
        world_size=diagnosis.coverage.expected,
        gpus=_gpus(diagnosis.coverage),
        roots=roots_of(finding),
    )


def _end_of(since: str | None, timeout: float | None) -> str | None:
    if since is None or timeout is None:
        return None
    end = datetime.fromisoformat(since) + timedelta(seconds=timeout)
    return end.isoformat(timespec="seconds").replace("+00:00", "Z")


def _gpus(coverage: Coverage) -> int:
    """Return how many GPUs a job holds: one per rank where each rank that was seen has one."""
    if coverage.expected is not None and 0 < coverage.with_gpu == coverage.seen:
        return coverage.expected
    return coverage.with_gpu
