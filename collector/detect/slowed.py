"""Whether one rank slows a job down that goes on: it makes the others wait at each step, in looks ten minutes apart."""

from collector.detect.alarms import Suspected
from collector.detect.job_view import JobView
from collector.detect.limits import SLOW_SECONDS, SUSPICION_SECONDS
from collector.detect.triggers import slower
from shared.answer.words import Verdict


class Slowed:
    """What looks at one job have found of that. No clock."""

    def __init__(self) -> None:
        self._first: Suspected | None = None
        self._looked_at = float("-inf")

    def reason_to_look(self, view: JobView, now: float) -> str:
        """Return why to look for that; empty: there is no reason."""
        return slower(view) if now - self._looked_at >= SLOW_SECONDS else ""

    def found(self, ranks: str, id: str, verdict: Verdict, now: float) -> str:
        """Take in a look: the ranks that slow it down, empty for nobody, and the id of the diagnosis.

        Returns the id of the first one that found the same, once that is long enough ago for an alarm.
        """
        is_old = now - self._looked_at > SUSPICION_SECONDS
        self._looked_at = now
        if not ranks:
            self._first = None if verdict is Verdict.NOT_HUNG or is_old else self._first
            return ""
        if self._first is None or self._first.key != ranks or is_old:
            self._first = Suspected(ranks, id, now)
        return self._first.diagnosis if now - self._first.at >= SLOW_SECONDS else ""
