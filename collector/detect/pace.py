"""How fast a job goes on: whether it has issued fewer operations, for ten minutes, than it did before.

A look then tells whether one rank makes the others wait. Where nothing was issued, the job paused: that is no pace.
"""

from collections import deque
from statistics import median

from collector.detect.limits import LEAST_PACES, MOST_PACES, PACE_SECONDS, SLOWER_SHARE, SLOWER_TIMES


class JobPace:
    """Operations an hour of one run of a job, by the highest number that any of its ranks has issued."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None
        self._paces: deque[float] = deque(maxlen=MOST_PACES)
        self.slower: tuple[float, float] | None = None
        """Operations an hour now, and as was usual before; None: it is not slower, or too little is known."""

    def take(self, highest: int, now: float) -> None:
        """Take in how far the job is now. `highest`: -1 is none."""
        if highest < 0:
            return
        if self._began is None:
            self._began = now, highest
        since, issued = self._began
        if now - since >= PACE_SECONDS:
            if highest > issued:
                self._paces.append(3600 * (highest - issued) / (now - since))
                self.slower = self._compared()
            self._began = now, highest

    def _compared(self) -> tuple[float, float] | None:
        before, lately = tuple(self._paces)[:-SLOWER_TIMES], tuple(self._paces)[-SLOWER_TIMES:]
        if len(before) < LEAST_PACES or max(lately) > SLOWER_SHARE * (usual := median(before)):
            return None
        return lately[-1], usual
