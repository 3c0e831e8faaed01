"""How quickly the agents of one round answer, and which of them is late by that measure."""

import asyncio
import math
from bisect import insort

MOST_SECOND_TRIES = 0.05
"""The share of a round that is asked a second time for being late; one at least, where several were asked."""

SOONEST_LATE_SECONDS = 0.5
"""Nobody is late sooner: what takes less is not worth a second connection."""

_LATE = 1.5
"""So many times as long as it took nearly all others."""


class Pace:
    """The pace of one round."""

    def __init__(self, asked: int) -> None:
        self.spare = max(1, int(MOST_SECOND_TRIES * asked)) if asked > 1 else 0
        """How many may be asked a second time."""
        self._left = asked
        self._seconds: list[float] = []
        self._nearly_done = asyncio.Event()

    def finished(self, seconds: float | None) -> None:
        """Take note that one more has answered, so long after its turn began, or failed."""
        self._left -= 1
        if seconds is not None:
            insort(self._seconds, seconds)
        if self._left <= self.spare and self._seconds:
            self._nearly_done.set()

    async def late_after(self) -> float:
        """Wait until nearly all have answered; return after how many seconds one that has not is late."""
        await self._nearly_done.wait()
        nearly_all = math.ceil((1 - MOST_SECOND_TRIES) * len(self._seconds))
        return max(SOONEST_LATE_SECONDS, _LATE * self._seconds[nearly_all - 1])
