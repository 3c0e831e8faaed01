"""All watched jobs: takes digests in, says which jobs to look at and which incidents are over. No clock, no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.detect.alarms import Alarm, Suspected
from collector.detect.job_watch import JobWatch
from collector.detect.limits import FORGOTTEN_SECONDS
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import Incident, JobState, WatchedJob
from shared.rank_sets import fold
from shared.wire.job_names import qualified
from shared.wire.registration import NodeDigest

MOST_JOBS_WATCHED = 8_192
"""Nodes could make more up: those that nobody has told of for longest are left out."""

JobKey = tuple[str, str | None]
"""A job's name and its user."""


@dataclass(frozen=True)
class ToAsk:
    """A job to be looked at now."""

    key: JobKey
    reason: str
    patience_seconds: float = float("inf")
    """How long the diagnosis may go on where only time tells, at most."""


@dataclass(frozen=True)
class Over:
    """An incident that is over, and why."""

    key: JobKey
    incident: str
    why: str


@dataclass(frozen=True)
class Learnt:
    """What counts as a usual pause of a job from now on, in seconds."""

    key: JobKey
    usual: float


@dataclass(frozen=True)
class Due:
    """What is to be done now."""

    ask: tuple[ToAsk, ...] = ()
    over: tuple[Over, ...] = ()
    learnt: tuple[Learnt, ...] = ()


@dataclass
class _Orphan:
    """An incident from before this collector began, whose job nobody has told of yet."""

    incident: Incident
    since: float


@dataclass
class Detector:
    """The jobs of all nodes. Times are seconds of any one clock that does not go back."""

    usual_pauses: dict[JobKey, float] = field(default_factory=dict)
    """Learnt in earlier runs of these names."""
    _jobs: dict[JobKey, JobWatch] = field(default_factory=dict)
    _named: dict[str, set[JobKey]] = field(default_factory=dict)
    """The same jobs by their name alone."""
    _of_host: dict[str, frozenset[JobKey]] = field(default_factory=dict)
    _orphans: dict[JobKey, _Orphan] = field(default_factory=dict)

    def take(self, host: str, digest: NodeDigest, now: float) -> None:
        """Take in what one node tells of its jobs; what it no longer tells of is not there any more."""
        told = {(each.job, each.user): each for each in digest.jobs}
        for key in self._of_host.get(host, frozenset()) - told.keys():
            if key in self._jobs:
                self._jobs[key].view.drop(host)
        for key, each in told.items():
            self._watch(key, now).take(host, each, now, digest.signs)
        self._of_host[host] = frozenset(told)

    def check(self, now: float) -> Due:
        """Return what is to be done."""
        ask, over, learnt = [], [], []
        for key, watch in list(self._jobs.items()):
            watch.check(now)
            if watch.is_forgotten(now):
                self._forget(key)
                continue
            if why := watch.over(now):
                assert watch.incident is not None
                over.append(Over(key, watch.incident.id, why))
            elif reason := watch.ask(now):
                ask.append(ToAsk(key, reason, watch.patience_seconds(now)))
            if (usual := watch.pauses.take_learnt()) is not None:
                learnt.append(Learnt(key, usual))
        for key, orphan in self._orphans.items():
            if now - orphan.since > FORGOTTEN_SECONDS:
                over.append(Over(key, orphan.incident.id, "no agent reports the job any more"))
        return Due(tuple(ask), tuple(over), tuple(learnt))

    def answered(self, key: JobKey, diagnosis: Diagnosis | None, now: float) -> Alarm | None:
        """Take in what came of looking at a job; returns the alarm, if it is one."""
        watch = self._jobs.get(key)
        return None if watch is None else watch.answered(diagnosis, now)

    def recall(self, key: JobKey, earlier: Suspected) -> None:
        """Another collector, or this one before it was restarted, has found the job hung once."""
        watch = self._jobs.get(key)
        if watch is not None and watch.suspected is None:
            watch.suspected = earlier

    def know(self, key: JobKey, usual: float) -> None:
        """Earlier runs of that name have paused for so long."""
        self.usual_pauses[key] = usual
        if key in self._jobs:
            self._jobs[key].pauses.know(usual)

    def opened(self, key: JobKey, incident: Incident, now: float) -> None:
        """The store has an incident open for this job."""
        if key in self._jobs:
            self._jobs[key].opened(incident, now)

    def incidents(self) -> dict[str, JobKey]:
        """Return the open incidents by id, with their jobs."""
        open_now = {w.incident.id: key for key, w in self._jobs.items() if w.incident is not None}
        return open_now | {orphan.incident.id: key for key, orphan in self._orphans.items()}

    def closed(self, key: JobKey, now: float, *, false_alarm: bool = False) -> None:
        """The job's incident is over."""
        self._orphans.pop(key, None)
        watch = self._jobs.get(key)
        if watch is not None and watch.incident is not None:
            watch.closed(now, false_alarm=false_alarm)

    def adopt(self, incidents: Iterable[Incident], now: float) -> None:
        """Take over incidents that are open in the store: from before a start, or opened by another collector.

        One whose own job is over is open for others, and over with these.
        """
        for incident in incidents:
            if incident.released_at is not None:
                continue
            key = (incident.fingerprint.job, incident.fingerprint.user)
            if key not in self._jobs:
                self._orphans[key] = _Orphan(incident, now)
            elif self._jobs[key].incident is None:
                self._jobs[key].opened(incident, now)

    def watch_of(self, key: JobKey) -> JobWatch | None:
        """Return one job."""
        return self._jobs.get(key)

    def find(self, job: str, user: str | None = None) -> JobWatch | None:
        """Return the job of that name, as diagnoses name it: with its user appended where several have the name."""
        for name in (job, job.rpartition("@")[0]):
            for key in self._named.get(name, ()):
                if self.name_of(key) == job and user in (None, key[1]):
                    return self._jobs[key]
        return None

    def name_of(self, key: JobKey) -> str:
        """Return the name to ask for: with the user appended where several users have a job of that name."""
        job, user = key
        same = self._named.get(job, set())
        return qualified(job, user) if len(same) > (key in same) else job

    @property
    def jobs(self) -> dict[JobKey, JobWatch]:
        """All watched jobs."""
        return self._jobs

    def _watch(self, key: JobKey, now: float) -> JobWatch:
        watch = self._jobs.get(key)
        if watch is None:
            if len(self._jobs) >= MOST_JOBS_WATCHED:
                self._forget(min(self._jobs, key=lambda each: self._jobs[each].view.heard))
            watch = self._jobs[key] = JobWatch(*key, now, usual_pause=self.usual_pauses.get(key))
            self._named.setdefault(key[0], set()).add(key)
            orphan = self._orphans.pop(key, None)
            if orphan is not None:
                watch.opened(orphan.incident, now)
        return watch

    def _forget(self, key: JobKey) -> None:
        del self._jobs[key]
        same = self._named[key[0]]
        same.remove(key)
        if not same:
            del self._named[key[0]]


def told_of(watch: JobWatch, name: str, now: float, *, since: str) -> WatchedJob:
    """Return a job as it is told to clients; `since` is the time of its state on the wall clock."""
    stood = watch.view.stood_since(now)
    reads_marks = any(view.still_since is not None for view in watch.view.ranks.values())
    return WatchedJob(
        job=name,
        user=watch.user,
        state=watch.state,
        since=since,
        ranks=fold(watch.view.ranks),
        world_size=watch.view.world_size,
        still_seconds=(round(now - stood, 1) if stood is not None else 0.0) if reads_marks else None,
        usual_pause_seconds=watch.pauses.usual,
        phase="" if watch.phase is None else watch.phase.value,
        reason=watch.reason if watch.state in (JobState.SUSPECTED, JobState.HUNG) else "",
        incident=None if watch.incident is None else watch.incident.id,
        diagnosis=None if watch.last is None else watch.last.id or None,
        verdict=None if watch.last is None else watch.last.verdict,
    )
