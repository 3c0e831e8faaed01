"""The jobs on some hosts, watched over ssh: nothing runs there between two visits, so each one is a whole diagnosis.

A job that is found hung is looked at again at once; found twice with the same fingerprint it is an incident, as a
collector would have it. It is over when a later visit does not find that, or the job is gone.
"""

import time
from collections.abc import Callable, Iterator

from cli.sources.job_source import Wanted
from cli.sources.ssh import Ssh
from cli.sources.watched.local_incidents import LocalIncidents, seconds_too_early
from collector.detect.fingerprints import fault_of, fingerprint_of, incident_of
from collector.question import PATIENCE_SECONDS
from shared.answer.incidents import Incident, IncidentEvent
from shared.errors import UnhangError

VISIT_SECONDS = 30.0
"""From the beginning of one visit to that of the next, which costs each host a login and two looks: a collector, too,
looks at what has stood still for half a minute."""


def watch_ssh(
    source: Ssh, say: Callable[[str], None], *, every_seconds: float = VISIT_SECONDS
) -> Iterator[IncidentEvent]:
    """Iterate over incidents of jobs on the hosts, as they are found and end. `say` is told what goes wrong."""
    watching = _There(source, say)
    while True:
        began = time.monotonic()
        yield from watching.visit()
        time.sleep(max(0.0, min(began + every_seconds - time.monotonic(), watching.decides_in)))


class _There(LocalIncidents):
    def __init__(self, source: Ssh, say: Callable[[str], None]) -> None:
        super().__init__()
        self._source = source
        self._say = say
        self._of_job: dict[str, str] = {}
        """The open incident of each job."""
        self.decides_in = float("inf")
        """Seconds until one that stands now has stood for long."""

    def visit(self) -> Iterator[IncidentEvent]:
        """Look at every job once, and again at those that are found hung."""
        self.decides_in = float("inf")
        try:
            jobs = self._source.jobs()
        except UnhangError as error:
            self._say(f"the hosts could not be asked: {error}")
            return
        for silent in jobs.unanswered:
            self._say(f"{silent.host} does not answer: {silent.missing.detail}")
        names = {summary.name for summary in jobs.jobs if summary.ranks}
        for name in sorted(names):
            yield from self._look(name)
        if not jobs.unanswered:  # else a job may be where nobody answers
            for name in sorted(self._of_job.keys() - names):
                yield self._over(name)

    def _look(self, name: str) -> Iterator[IncidentEvent]:
        found = self._found(name)
        if found is None:
            return
        known = self._open.get(self._of_job.get(name, ""))
        if known is not None and (not found or found[0].fingerprint != known.fingerprint):
            yield self._over(name)
        if found and name not in self._of_job:
            again = self._found(name)
            if again and again[0].fingerprint == found[0].fingerprint:
                event = self._opened(again[0], {"times_seen": 2})
                self._of_job[name] = event.incident.id
                yield event

    def _found(self, name: str) -> tuple[Incident, ...] | None:
        """Return what hangs the job, nothing where it does not hang; None where that could not be found out."""
        try:
            diagnosis = self._source.diagnose(Wanted(name, patience_seconds=PATIENCE_SECONDS), None).diagnosis
        except UnhangError as error:
            self._say(f"{name} was not diagnosed: {error}")
            return None
        fault = fault_of(diagnosis)
        early = 0.0 if fault is None else seconds_too_early(fault)
        if fault is None or early:
            self.decides_in = min(self.decides_in, early or self.decides_in)
            return ()
        fingerprint = fingerprint_of(fault, name, diagnosis.user)
        return (incident_of(diagnosis, fault, fingerprint, trigger="a visit over ssh"),)

    def _over(self, name: str) -> IncidentEvent:
        return self._resolved(self._of_job.pop(name))
