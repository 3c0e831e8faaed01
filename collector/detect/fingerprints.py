"""What makes two verdicts the same fault, and the incident that a verdict would be."""

from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.incidents import DIED, Fingerprint, Incident, IncidentState
from shared.answer.words import HAS_ENDED, Verdict
from shared.rank_sets import fold


def fault_of(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding that an alarm would be about; None: there is nothing to alarm anybody about."""
    return diagnosis.findings[0] if diagnosis.verdict is Verdict.HUNG and diagnosis.findings else None


def death_of(diagnosis: Diagnosis) -> Finding | None:
    """Return how a job died that has ended; None: it lives, or ended as jobs do."""
    return diagnosis.findings[0] if diagnosis.state == "finished" and diagnosis.findings else None


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


def incident_of(diagnosis: Diagnosis, finding: Finding, fingerprint: Fingerprint, *, trigger: str) -> Incident:
    """Return the incident to report to the store, which gives it its id and times."""
    died = diagnosis.state == "finished"
    hosts = sorted({culprit.host for culprit in finding.culprits if culprit.host is not None})
    return Incident(
        id="",
        job=diagnosis.job or fingerprint.job,
        user=fingerprint.user,
        state=IncidentState.OPENED,
        kind=finding.kind,
        cause=finding.cause,
        certainty=finding.certainty,
        headline=DIED + diagnosis.headline.rpartition(HAS_ENDED)[2].removesuffix(".") if died else diagnosis.headline,
        fingerprint=fingerprint,
        key=fingerprint.key,
        culprits=finding.culprits,
        hosts=tuple(hosts),
        opened_at="",
        seen_at="",
        still_since=finding.since,
        died=died,
        trigger=trigger,
    )
