"""Tasks that run in the background: begun and ended with what they serve, and what ends them early is logged."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_AGAIN_SECONDS = 1.0

_log = logging.getLogger(__name__)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator["asyncio.Task[None]"]:
    """Have `work` go on until the end of the context."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(lambda done: log_failure(done, f"{name} has ended"))
    try:
        yield task
    finally:
        await end(task)


def log_failure(task: "asyncio.Task[Any]", what: str) -> None:
    """Log what a task has raised that has ended; nobody awaits it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error(what, exc_info=error)


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
