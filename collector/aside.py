"""Run what computes in a thread of its own.

`asyncio.to_thread` shares a handful of threads with the look-ups of host names: names that no server answers would hold
the verdict up for as long as the resolver tries.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def aside(call: Callable[..., T], *arguments: object) -> T:
    """Return what `call` returns, or raise what it raises, without holding up the event loop."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if outcome.done():  # nobody waits any more
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = call(*arguments)
        except StopIteration as caught:  # a future takes none: whoever awaits it would wait for ever
            error = RuntimeError("StopIteration")
            error.__cause__ = caught
        except BaseException as caught:  # noqa: BLE001 - it is raised where it is awaited
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await outcome
