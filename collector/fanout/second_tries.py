"""Ask those of a round once more who have not answered when nearly all others have, and take the first answer.

A packet that is lost, or a kept connection that leads nowhere, holds one agent up for seconds. Agents share one look
among all who ask the same while it is under way, so a second try costs the job nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from collector.failures import Again
from collector.fanout.inquiry import Inquiry
from collector.fanout.pace import Pace
from collector.fanout.rounds import T

_WORTH_A_TRY_SECONDS = 0.1
_TO_END_SECONDS = 1.0


@asynccontextmanager
async def second_tries(
    inquiries: Sequence[Inquiry[T]], pace: Pace, on_again: Callable[[Again], None]
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


async def _ask_late_ones(inquiries: Sequence[Inquiry[T]], pace: Pace, on_again: Callable[[Again], None]) -> None:
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
