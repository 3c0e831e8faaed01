"""Watches jobs unasked: digests in, diagnoses made where a job may hang, incidents out.

The detector decides (`collector/detect/`), the store keeps. One replica at a time looks at a job: it holds the job's
lease. What cannot be written is written once the store works again; until then an alarm waits here.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.align.expected import FoundHung
from collector.align.marks.agent_marks import Reported
from collector.concurrency.tasks import end, in_background, log_failure
from collector.detect.alarms import Alarm, Suspected
from collector.detect.detector import Detector, JobKey, Over, ToAsk, told_of
from collector.detect.job_watch import JobWatch
from collector.detect.reports import reported_by
from collector.gather.judge_and_stamp import rfc3339
from collector.keep.async_store import AsyncStore
from collector.keep.database import StoreTrouble
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import IncidentState, JobState, WatchedJob
from shared.errors import InvalidInput, NotFound, UnhangError, quoted
from shared.wire.job_names import qualified
from shared.wire.registration import NodeDigest

STEP_SECONDS = 1.0
DIGEST_SECONDS, _RARELY_SECONDS = 30.0, 60.0
"""How often agents tell how far their ranks are, besides each change of a state; and in the largest clusters. Both are
well below what makes them silent (`limits.py`)."""
_OFTEN = 2048
"""So many agents may tell that often: one takes some 0.3 ms of the collector's time. More tell less often."""
_MOST_AT_ONCE = 4
"""Jobs that are looked at unasked: half of what is diagnosed at once. Those that somebody asks about come first."""
_REFRESH_SECONDS = 3.0
_COUNT_SECONDS = 60.0
"""How often it is looked up which incidents people or other replicas have opened or closed."""

_log = logging.getLogger(__name__)


def digest_seconds_of(agents: int) -> float:
    """Return how often each of so many agents is to tell how far its ranks are."""
    return min(_RARELY_SECONDS, max(DIGEST_SECONDS, DIGEST_SECONDS * agents / _OFTEN))


Diagnose = Callable[[str, float], Awaitable[Diagnosis]]
"""Diagnoses the job of that name, with so much patience at most. Raises UnhangError."""


class Watcher:
    """The detector at work."""

    def __init__(
        self, async_store: AsyncStore, diagnose: Diagnose, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.detector = Detector()
        self.looked = self.alarms = 0
        self._async_store = async_store
        self._store = async_store.store
        self._diagnose = diagnose
        self._clock = clock
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._looking: set[asyncio.Task[None]] = set()
        self._waiting: dict[JobKey, Alarm] = {}
        self._known: set[JobKey] = set()
        self._refreshed = self._counted = float("-inf")
        self.faulty_hosts: tuple[str, ...] = ()
        """Nodes at fault again and again for causes that hardware can have."""

    def take(self, host: str, digest: NodeDigest) -> None:
        """Take in what an agent tells."""
        self.detector.take(host, digest, self._clock())

    @property
    def waiting(self) -> int:
        """How many alarms the store has not taken yet."""
        return len(self._waiting)

    def watched(self) -> tuple[WatchedJob, ...]:
        """Return all jobs as they are known now, by name."""
        jobs = self.detector.jobs
        named = sorted((self.detector.name_of(key), key) for key in jobs)
        return tuple(self._told(jobs[key], name) for name, key in named)

    def state_of(self, job: str, user: str | None) -> WatchedJob | None:
        """Return one job by the name that lists of jobs give it; None: it is not watched."""
        watch = self.detector.find(job, user)
        return None if watch is None else self._told(watch, job)

    def reported(self, job: str) -> Reported | None:
        """Return how far the ranks of a job are, by the name that lists of jobs give it; None: too little is known."""
        watch = self.detector.find(job)
        return None if watch is None else reported_by(watch.view, watch.user, self._clock())

    async def _count_faults(self, now: float) -> None:
        """Learn which nodes are at fault again and again."""
        if now - self._counted >= _COUNT_SECONDS:
            self.faulty_hosts = await self._async_store.ask(self._store.incidents.faulty_hosts)
            self._counted = now

    async def found_hung(self, job: str) -> FoundHung | None:
        """Return what that job was found hung with when somebody last looked; None: nothing, or it is not watched.

        Ranks may have exited since of which no agent has told yet.
        """
        if self.detector.find(job) is None:
            return None
        with suppress(StoreTrouble):
            return await self._async_store.ask(self._store.found_hung, job)
        return None

    def usual_pause(self, job: str) -> float | None:
        """Return how long jobs of that name usually pause, in seconds; None: nothing was learnt."""
        watch = self.detector.find(job)
        return None if watch is None else watch.pauses.usual

    async def step(self) -> None:
        """Do what is due. Looks go on in tasks of their own."""
        now = self._clock()
        due = self.detector.check(now)
        for ask in due.ask:
            task = asyncio.create_task(self._look(ask), name="unasked look")
            self._looking.add(task)
            task.add_done_callback(self._end_look)
        try:
            await self._write(due.over, {each.key: each.usual for each in due.learnt})
            await self._report_waiting()
            if now - self._refreshed >= _REFRESH_SECONDS:
                await self._refresh()
                self._refreshed = now
            await self._count_faults(now)
        except StoreTrouble as trouble:
            _log.debug("the store cannot be used: %s", trouble)

    async def keep_on(self) -> None:
        """Step until cancelled."""
        while True:
            try:
                await self.step()
            except UnhangError as error:
                _log.warning("watching goes on after: %s", error)
            await asyncio.sleep(STEP_SECONDS)

    async def stop(self) -> None:
        """Leave the jobs to other replicas."""
        await end(*self._looking)
        try:
            await self._async_store.note(self._store.watches.let_go)
        except StoreTrouble:
            pass  # the leases end by themselves

    async def _look(self, ask: ToAsk) -> None:
        """Have a job diagnosed, and take in what comes of it."""
        key, diagnosis = ask.key, None
        try:
            async with self._turns:
                if await self._hold(key):
                    self.looked += 1
                    _log.info("looking at %s unasked: %s", quoted(self.detector.name_of(key)), ask.reason)
                    diagnosis = await self._made(key, ask.patience_seconds)
        finally:
            alarm = self.detector.answered(key, diagnosis, self._clock())
        if alarm is not None:
            self._waiting[key] = alarm
        try:
            await self._note_suspicion(key)
            await self._report_waiting()
        except StoreTrouble as trouble:
            _log.warning("what was found about %s waits for the store: %s", quoted(key[0]), trouble)

    async def _made(self, key: JobKey, patience: float) -> Diagnosis | None:
        try:
            try:
                return await self._diagnose(self.detector.name_of(key), patience)
            except InvalidInput:  # several users have a job of that name, of which one tells us nothing
                return await self._diagnose(qualified(*key), patience)
        except UnhangError as error:
            _log.info("%s was not diagnosed: %s", quoted(key[0]), error)
            return None

    async def _hold(self, key: JobKey) -> bool:
        """Take the job's lease, and learn what other replicas know of it. Without a store we are alone."""
        name = qualified(*key)
        try:
            if not await self._async_store.note(self._store.watches.hold, name):
                return False
            earlier = await self._async_store.ask(self._store.watches.suspicion, name)
        except StoreTrouble:
            return True
        if earlier is not None:
            at = self._clock() - earlier.age_seconds
            self.detector.recall(key, Suspected(earlier.fingerprint, earlier.diagnosis, at))
        return True

    async def _note_suspicion(self, key: JobKey) -> None:
        watch = self.detector.watch_of(key)
        if watch is None:
            return
        found = watch.suspected
        if found is None:
            await self._async_store.note(self._store.watches.clear, qualified(*key))
        else:
            await self._async_store.note(self._store.watches.suspect, qualified(*key), found.key, found.diagnosis)

    async def _report_waiting(self) -> None:
        """Report alarms to the store; one that it does not take waits. The store has each fingerprint once."""
        for key in list(self._waiting):
            alarm = self._waiting.pop(key, None)
            if alarm is None:
                continue  # another task reports it
            try:
                if alarm.ends:
                    await self._async_store.note(self._store.incidents.resolve, alarm.ends, note=alarm.why_ended)
                incident = await self._async_store.note(self._store.incidents.report, alarm.incident, alarm.diagnoses)
            except BaseException:
                self._waiting.setdefault(key, alarm)
                raise
            if incident.is_live:
                self.alarms += 1
                _log.warning("incident %s of %s: %s", incident.id, quoted(incident.job), incident.headline)
                self.detector.opened(key, incident, self._clock())

    async def _write(self, over: tuple[Over, ...], learnt: dict[JobKey, float]) -> None:
        for each in over:
            await self._async_store.note(self._store.incidents.resolve, each.incident, note=each.why)
            self.detector.closed(each.key, self._clock())
        for key, usual in learnt.items():
            await self._async_store.note(self._store.watches.learn, qualified(*key), usual)
        for key in [key for key in self.detector.jobs if key not in self._known]:
            known = await self._async_store.ask(self._store.watches.usual_pause, qualified(*key))
            self._known.add(key)
            if known is not None:
                self.detector.know(key, known)
        self._known &= self.detector.jobs.keys()

    async def _refresh(self) -> None:
        """Take in what people and other replicas have done."""
        live = {incident.id: incident for incident in await self._async_store.ask(self._store.incidents.live)}
        known = self.detector.incidents()
        for id in known.keys() - live.keys():
            try:
                state = (await self._async_store.ask(self._store.incidents.get, id)).state
            except NotFound:
                state = IncidentState.RESOLVED
            self.detector.closed(known[id], self._clock(), false_alarm=state is IncidentState.FALSE_ALARM)
        self.detector.adopt([incident for id, incident in live.items() if id not in known], self._clock())

    def _end_look(self, task: "asyncio.Task[None]") -> None:
        self._looking.discard(task)
        log_failure(task, "an unasked look has failed")

    def _told(self, watch: JobWatch, name: str) -> WatchedJob:
        now = self._clock()
        since = rfc3339(time.time_ns() - int((now - watch.since) * 1e9))
        return told_of(watch, name, now, since=since)

    def counts(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        counts = dict.fromkeys(JobState, 0)
        for watch in self.detector.jobs.values():
            counts[watch.state] += 1
        return counts


class WatchMetrics(Collector):
    """What watching comes to, made when it is asked for; all zero where nothing is watched."""

    def __init__(self, watcher: Watcher | None) -> None:
        self._watcher = watcher

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        watcher = self._watcher
        states = dict.fromkeys(JobState, 0) if watcher is None else watcher.counts()
        jobs = GaugeMetricFamily("unhang_collector_watched_jobs", "Watched jobs, by state.", labels=["state"])
        for state, count in states.items():
            jobs.add_metric([state.value], count)
        yield jobs
        looked, alarms, waiting = (0, 0, 0) if watcher is None else (watcher.looked, watcher.alarms, watcher.waiting)
        yield CounterMetricFamily("unhang_collector_unasked_looks", "Jobs looked at unasked.", looked)
        yield CounterMetricFamily("unhang_collector_alarms", "Jobs found hung or slow twice, or dead, unasked.", alarms)
        yield GaugeMetricFamily("unhang_collector_alarms_waiting", "Alarms that the store has not taken yet.", waiting)


@asynccontextmanager
async def watching(watcher: Watcher | None) -> AsyncIterator[None]:
    """Watch until the end of the context; None: nothing is watched."""
    if watcher is None:
        yield
        return
    try:
        async with in_background(watcher.keep_on(), "watching"):
            yield
    finally:
        await watcher.stop()
