"""The jobs on this machine, watched in the foreground: the agent's beat and the collector's detector in one process."""

import time
from collections.abc import Callable, Iterator

from agent.agent import Agent
from agent.deadline import Deadline
from cli.sources.agent_here import local_settings
from cli.sources.job_source import Wanted
from cli.sources.one_box import OneBox
from cli.sources.watched.local_incidents import LocalIncidents, seconds_too_early
from collector.detect.detector import Detector, JobKey, ToAsk
from collector.detect.fingerprints import fault_of
from collector.question import PATIENCE_SECONDS
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import IncidentEvent
from shared.errors import UnhangError
from shared.rank_sets import fold

_BEAT_SECONDS = 2.0
_READ_SECONDS = 5.0
"""For one beat at most: where PyTorch keeps its objects is sought in a gigabyte of library, once."""
_SEARCH_SECONDS = 10.0
_MARKS_SECONDS = 20.0
"""After which a job is said to be watched without its operations: the first search of a rank's memory takes a while."""
_HERE = "this machine"
"""In the reasons to look at a job, where a collector has the node's name."""


def watch_here(say: Callable[[str], None]) -> Iterator[IncidentEvent]:
    """Iterate over incidents of jobs on this machine, as they are opened and end. `say` is told what is looked at."""
    agent = Agent(local_settings())
    watching = _Here(agent, say)
    try:
        while True:
            yield from watching.step()
            time.sleep(_BEAT_SECONDS)
    finally:
        agent.stop()


class _Here(LocalIncidents):
    def __init__(self, agent: Agent, say: Callable[[str], None]) -> None:
        super().__init__()
        self._agent = agent
        self._say = say
        self._detector = Detector()
        self._seen: dict[JobKey, float | None] = {}
        """Since when each job has been watched; None: that was said."""
        self._next_search = 0.0

    def step(self) -> Iterator[IncidentEvent]:
        """Take a beat, and do what is due."""
        if time.monotonic() >= self._next_search or self._agent.node.watch.some_have_gone:
            self._agent.ranks()
            self._next_search = time.monotonic() + _SEARCH_SECONDS
        self._agent.beat(Deadline(_READ_SECONDS))
        self._agent.digests.renew()
        self._detector.take(_HERE, self._agent.digests.newest()[0], time.monotonic())
        for key in self._tell_of_new(time.monotonic()):
            self._say(f"looking at {self._detector.name_of(key)}: it is seen for the first time")
            diagnosis = self._diagnosed(key, patience_seconds=0.0)
            fault = None if diagnosis is None else fault_of(diagnosis)
            if fault is not None and not seconds_too_early(fault):
                yield from self._take_in(key, diagnosis)
        due = self._detector.check(time.monotonic())
        for over in due.over:
            self._detector.closed(over.key, time.monotonic())
            yield self._resolved(over.incident)
        for ask in due.ask:
            yield from self._look(ask)

    def _tell_of_new(self, now: float) -> list[JobKey]:
        """Say which jobs are watched, and return those that may hang already: nobody knows since when they stand."""
        new = []
        self._seen = {key: self._seen.get(key, now) for key in self._detector.jobs}
        for key, watch in self._detector.jobs.items():
            since = self._seen[key]
            if since is None or not watch.view.ranks:
                continue
            reads_marks = any(rank.still_since is not None for rank in watch.view.ranks.values())
            if reads_marks or now - since > _MARKS_SECONDS:
                unread = "" if reads_marks else ", whose operations cannot be read"
                self._say(f"watching {self._detector.name_of(key)}: ranks {fold(watch.view.ranks)}{unread}")
                self._seen[key] = None
                new += [key] if len(watch.view.ranks) > 1 else []
        return new

    def _look(self, ask: ToAsk) -> Iterator[IncidentEvent]:
        self._say(f"looking at {self._detector.name_of(ask.key)}: {ask.reason}")
        patience = min(ask.patience_seconds, PATIENCE_SECONDS)
        yield from self._take_in(ask.key, self._diagnosed(ask.key, patience_seconds=patience))

    def _diagnosed(self, key: JobKey, *, patience_seconds: float | None = None) -> Diagnosis | None:
        name = self._detector.name_of(key)
        try:
            return OneBox(self._agent).diagnose(Wanted(name, patience_seconds=patience_seconds), None).diagnosis
        except UnhangError as error:
            self._say(f"{name} was not diagnosed: {error}")
            return None

    def _take_in(self, key: JobKey, diagnosis: Diagnosis | None) -> Iterator[IncidentEvent]:
        alarm = self._detector.answered(key, diagnosis, time.monotonic())
        if alarm is None:
            return
        if alarm.incident.id:  # more of an open one, or how its job ended, which is said once that is over
            self._detector.opened(key, alarm.incident.model_copy(update={"job_ended": False}), time.monotonic())
            return
        if alarm.ends:
            yield self._resolved(alarm.ends)
        event = self._opened(alarm.incident, {"diagnoses": alarm.diagnoses})
        incident = event.incident
        self._detector.opened(key, incident, time.monotonic())
        yield event
