"""Ask the agents again that have not answered when nearly all others have, and take the first answer.

A lost packet, or a kept connection that leads nowhere, delays one agent's answer for seconds. An agent uses one look
for all who ask the same at the same time, so a second try costs the job nothing.
"""

import asyncio
import math
import time
from bisect import insort
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from collector.gather.failures import Again
from collector.gather.fanout.one_agent import Inquiry
from collector.gather.fanout.values import T

MOST_SECOND_TRIES = 0.05
"""The share of a round that is asked a second time for being late; one at least, where several were asked."""

SOONEST_LATE_SECONDS = 0.5
"""No agent is late sooner: less is not worth a second connection."""

_LATE = 1.5
"""So many times as long as it took nearly all others."""


class LateAgents:
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


_WORTH_A_TRY_SECONDS = 0.1
_TO_END_SECONDS = 1.0


@asynccontextmanager
async def second_tries(
    inquiries: Sequence[Inquiry[T]], pace: LateAgents, on_again: Callable[[Again], None]
) -> AsyncIterator[None]:
    """While inside, ask the late ones again. What is under way in the end is given up."""
    watching = asyncio.create_task(_ask_late_ones(inquiries, pace, on_again))
    try:
        yield
    finally:
        tasks = [watching, *(inquiry.second for inquiry in inquiries if inquiry.second is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_TO_END_SECONDS)


async def _ask_late_ones(inquiries: Sequence[Inquiry[T]], pace: LateAgents, on_again: Callable[[Again], None]) -> None:
    late_seconds = await pace.late_after()
    late = [
        (inquiry.began + late_seconds, at, inquiry)
        for at, inquiry in enumerate(inquiries)
        if inquiry.began is not None and not inquiry.ended and inquiry.request.may_be_doubled
    ]
    for when, _, inquiry in sorted(late)[: pace.spare]:
        await asyncio.sleep(max(0.0, when - time.monotonic()))
        if not inquiry.ended and inquiry.deadline.seconds_left > _WORTH_A_TRY_SECONDS:
            on_again(Again.LATE)
            inquiry.try_twice()
