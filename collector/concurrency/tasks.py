"""Ends tasks that run in the background, those too that a cancellation passes by."""

import asyncio
from typing import Any

_AGAIN_SECONDS = 1.0


async def end(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, again and again until all have ended, and drop what they return or raise.

    One cancellation does not do: before Python 3.12 `asyncio.wait_for`, which dnspython calls, forgets one that comes
    together with what it waits for, and the task goes on. Who is cancelled while ending others ends them first.
    """
    left = set(tasks)
    is_cancelled = False
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_AGAIN_SECONDS)
        except asyncio.CancelledError:
            is_cancelled = True
        left = {task for task in left if not task.done()}
    await asyncio.gather(*tasks, return_exceptions=True)
    if is_cancelled:
        raise asyncio.CancelledError
