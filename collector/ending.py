"""Ends tasks that run in the background, those too that a cancellation passes by."""

import asyncio
from typing import Any

_AGAIN_SECONDS = 1.0


async def end(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, again and again until all have ended, and drop what they return or raise.

    One cancellation does not do: before Python 3.12 `asyncio.wait_for`, which dnspython calls, forgets one that comes
    together with what it waits for, and the task goes on.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
