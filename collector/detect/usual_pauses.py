"""How long a job usually stands still between its steps, learnt from the pauses that it came out of by itself."""

from collections import deque

from collector.detect.limits import (
    LEAST_LEARNT_SECONDS,
    LEAST_STILL_SECONDS,
    LONGEST_PAUSES,
    MOST_LEARNT,
    MOST_STILL_SECONDS,
    USUAL_PAUSES,
)


class UsualPauses:
    """The pauses of jobs of one name. One long pause may have been an accident; what comes twice is usual."""

    def __init__(self, known: float | None = None) -> None:
        """`known`: what was learnt in earlier runs of this name."""
        self._known = known or 0.0
        self._pauses: deque[float] = deque(maxlen=MOST_LEARNT)
        self._learnt = False

    def know(self, seconds: float) -> None:
        """Take over what was learnt in earlier runs."""
        self._known = max(self._known, seconds)

    def learn(self, seconds: float) -> None:
        """Take in a pause that ended by itself."""
        if seconds >= LEAST_LEARNT_SECONDS:
            before = self.usual
            self._pauses.append(seconds)
            self._learnt |= (self.usual or 0.0) > (before or 0.0)

    def take_learnt(self) -> float | None:
        """Return what counts as usual, if that is more than at the last call."""
        learnt, self._learnt = self._learnt, False
        return self.usual if learnt else None

    @property
    def usual(self) -> float | None:
        """The longest pause that counts as usual; None: none was seen."""
        longest = max(self._pauses, default=0.0)
        repeated = max((p for p in self._pauses if sum(other >= p / 2 for other in self._pauses) > 1), default=0.0)
        return max(self._known, repeated, longest * LONGEST_PAUSES / USUAL_PAUSES) or None

    @property
    def allowance(self) -> float:
        """How long the job may stand still before it is looked at."""
        return min(MOST_STILL_SECONDS, max(LEAST_STILL_SECONDS, USUAL_PAUSES * (self.usual or 0.0)))

    @property
    def outlived(self) -> float:
        """How long a pause must be to be longer than any that the job has come out of by itself; 0: it had none."""
        return LONGEST_PAUSES * max(self._pauses, default=0.0)
