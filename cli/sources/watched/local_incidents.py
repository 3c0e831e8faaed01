"""Incidents that nobody keeps: those that are open now, and the numbers of what happened to them."""

import time
from collections.abc import Mapping

from collector.detect.limits import LEAST_STILL_SECONDS
from collector.gather.judge_and_stamp import rfc3339
from collector.judge.fault import NEVER_PASSES
from shared.answer.diagnosis import Finding
from shared.answer.incidents import Incident, IncidentChangeKind, IncidentEvent, IncidentState


def seconds_too_early(fault: Finding) -> float:
    """Return for how much longer ranks must stand until a collector would look; healthy jobs pause for seconds."""
    if fault.kind in NEVER_PASSES or fault.lasted_seconds is None:
        return 0.0
    return max(0.0, LEAST_STILL_SECONDS - fault.lasted_seconds)


class LocalIncidents:
    """What is open, by id."""

    def __init__(self) -> None:
        self._open: dict[str, Incident] = {}
        self._count = 0

    def _opened(self, incident: Incident, known: Mapping[str, object]) -> IncidentEvent:
        now = rfc3339(time.time_ns())
        made = {"id": f"local-{self._count + 1}", "opened_at": now, "seen_at": now, **known}
        event = self._event(IncidentChangeKind.OPENED, incident.model_copy(update=made))
        self._open[event.incident.id] = event.incident
        return event

    def _resolved(self, id: str) -> IncidentEvent:
        over = {"state": IncidentState.RESOLVED, "action": None}
        return self._event(IncidentChangeKind.RESOLVED, self._open.pop(id).model_copy(update=over))

    def _event(self, kind: IncidentChangeKind, incident: Incident) -> IncidentEvent:
        self._count += 1
        return IncidentEvent(id=self._count, at=rfc3339(time.time_ns()), kind=kind, incident=incident)
