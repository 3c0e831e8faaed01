"""Incidents as the detector reports them to the store."""

from shared.answer.diagnosis import Culprit
from shared.answer.incidents import Fingerprint, Incident, IncidentState
from shared.answer.words import Cause, Certainty, Kind


def draft(
    job: str = "demo", *, sequence: int = 7, host: str = "node1", kind: Kind = Kind.RANK_NOT_JOINED, headline: str = ""
) -> Incident:
    """A fault as a detector reports it."""
    fingerprint = Fingerprint(job=job, user="1000", kind=kind, culprits="3", group="0", sequence=sequence)
    return Incident(
        id="",
        job=job,
        user="1000",
        state=IncidentState.OPENED,
        kind=kind,
        cause=Cause.USER_CODE,
        certainty=Certainty.PROVEN,
        headline=headline or "Hung: rank 3",
        fingerprint=fingerprint,
        key=fingerprint.key,
        culprits=(Culprit(rank=3, host=host),),
        hosts=(host,),
        opened_at="",
        seen_at="",
        trigger="no rank has gone on for 31 s",
    )
