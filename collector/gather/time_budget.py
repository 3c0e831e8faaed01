"""When the last answer is due for the verdict to meet its deadline: judging and storing take time, too."""

from collections.abc import Iterable

from collector.gather.fanout.values import RequestDeadline
from shared.missing import Missing, Reason

LEAST_SECONDS = 0.5
_LEAST_SHARE = 0.1
_MOST_SHARE = 1 / 3
"""Share of the whole time. A late verdict is worth more than one that did not wait for answers."""

_AS_LONG_AS_THOUGHT = 2.0
"""The last judgement also checks how the job was started, is written down, and kept: measured at 1.5 times as much."""


class TimeBudget:
    """The time of one sweep: for asking, and what is kept back of it."""

    def __init__(self, deadline: RequestDeadline) -> None:
        """`deadline` is the verdict's."""
        self._deadline = deadline
        self._whole_seconds = deadline.seconds_left
        self.thought_seconds = 0.0
        """The longest that judging the answers has taken so far."""

    def has_thought(self, seconds: float) -> None:
        """Take note of how long that took: the verdict will take as long, and more."""
        self.thought_seconds = max(self.thought_seconds, seconds)

    def extended(self, seconds: float) -> "TimeBudget":
        """Return the budget of a verdict that may come so much later."""
        later = TimeBudget(RequestDeadline(self._deadline.at + seconds))
        later._whole_seconds = self._whole_seconds + seconds
        later.thought_seconds = self.thought_seconds
        return later

    @property
    def answers(self) -> RequestDeadline:
        """The deadline of the answers."""
        least = min(LEAST_SECONDS, _LEAST_SHARE * self._whole_seconds)
        kept_back = max(least, _AS_LONG_AS_THOUGHT * self.thought_seconds)
        return RequestDeadline(self._deadline.at - min(kept_back, _MOST_SHARE * self._whole_seconds))


def all_too_late(silent: Iterable[Missing]) -> bool:
    """Did nobody have the time to answer, as on a busy machine?"""
    reasons = {each.reason for each in silent}
    return reasons == {Reason.TIMED_OUT}
