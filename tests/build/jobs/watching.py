"""What agents tell of a job, and a detector that is told it: times are the test's own."""

from collections.abc import Sequence

from collector.detect.alarms import Alarm
from collector.detect.detector import Detector, JobKey
from collector.detect.fingerprints import fingerprint_of, incident_of
from shared.answer.diagnosis import Culprit, Diagnosis, Finding, GroupRef, Place, Where
from shared.answer.incidents import JobState
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.registration import ExitedRank, JobDigest, NodeDigest

DEMO: JobKey = ("demo", "1000")


def digest(
    still: Sequence[float | None],
    *,
    first: int = 0,
    sequences: Sequence[int] | None = None,
    idle: float | None = None,
    exited: tuple[ExitedRank, ...] = (),
    timeout: float | None = None,
    attempt: int = 0,
    world_size: int | None = 4,
    job: str = "demo",
    unanswered: float | None = None,
) -> NodeDigest:
    """What a node tells whose ranks have stood still for so long."""
    count = len(still)
    return NodeDigest(
        jobs=(
            JobDigest(
                job=job,
                user="1000",
                attempt=attempt,
                world_size=world_size,
                timeout_seconds=timeout,
                ranks=tuple(range(first, first + count)),
                still=tuple(still),
                idle=(idle,) * count,
                pending=(True,) * count,
                group=(0,) * count,
                sequence=tuple(sequences or (9,) * count),
                groups=("0",),
                exited=exited,
                unanswered=unanswered,
            ),
        )
    )


def hung(
    *,
    kind: Kind = Kind.RANK_NOT_JOINED,
    cause: Cause = Cause.USER_CODE,
    rank: int = 3,
    where: str = "train",
    lasted: float | None = None,
    id: str = "d1",
    certainty: Certainty = Certainty.PROVEN,
) -> Diagnosis:
    """A diagnosis that names a rank."""
    finding = Finding(
        kind=kind,
        cause=cause,
        certainty=certainty,
        culprits=(Culprit(rank=rank, host="node1"),),
        group=GroupRef(name="0"),
        sequence=10,
        where=Where(user=Place(function=where, file="train.py", line=3)),
        since="2026-01-01T00:00:00Z",
        lasted_seconds=lasted,
    )
    return Diagnosis(id=id, job="demo", user="1000", verdict=Verdict.HUNG, headline="Hung: rank 3", findings=(finding,))


def well(verdict: Verdict = Verdict.NOT_HUNG, **more: object) -> Diagnosis:
    """A diagnosis that names nobody."""
    return Diagnosis.model_validate({"id": "w", "job": "demo", "verdict": verdict, "headline": "Not hung", **more})


class Watching:
    """A detector, and what it was told until now."""

    def __init__(self, detector: Detector | None = None) -> None:
        self.detector = detector or Detector()
        self.now = 1000.0
        self.patience: float | None = None
        """How much the last look was given."""

    def tell(self, told: NodeDigest, *, host: str = "node1", after: float = 0.0) -> None:
        self.now += after
        self.detector.take(host, told, self.now)

    def asked(self, *, after: float = 0.0) -> str:
        """Why the job is to be looked at, after some time."""
        self.now += after
        due = self.detector.check(self.now)
        self.patience = due.ask[0].patience_seconds if due.ask else None
        return due.ask[0].reason if due.ask else ""

    def answer(self, diagnosis: Diagnosis | None, *, after: float = 1.0) -> Alarm | None:
        self.now += after
        return self.detector.answered(DEMO, diagnosis, self.now)

    def opens(self, id: str = "i1", *, job_ended: bool = False, found: Diagnosis | None = None) -> None:
        """The store opens an incident of the job."""
        found = found or hung()
        incident = incident_of(found, found.findings[0], fingerprint_of(found.findings[0], *DEMO), trigger="")
        self.detector.opened(DEMO, incident.model_copy(update={"id": id, "job_ended": job_ended}), self.now)

    def over(self, *, after: float = 0.0) -> str:
        self.now += after
        due = self.detector.check(self.now)
        return due.over[0].why if due.over else ""

    @property
    def state(self) -> JobState:
        return self.detector.jobs[DEMO].state


def stood(seconds: float = 31.0, **more: object) -> Watching:
    """A job of four ranks that has trained, and stands still for so long."""
    made = Watching()
    made.tell(digest([1.0] * 4))
    made.tell(digest([seconds] * 4, **more), after=seconds)  # type: ignore[arg-type]
    return made
