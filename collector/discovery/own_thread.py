"""Work that may block for ever, such as reading a file on a mount that is gone, in a thread that holds up nobody."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from shared.errors import UnhangError, Unreachable

T = TypeVar("T")


class OwnThread:
    """Runs one piece of work at a time; the next one is refused while the last has not come back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise its UnhangError. Raises Unreachable while an earlier one blocks."""
        if self._running is not None and self._running.is_alive():
            raise Unreachable("an earlier read of it has not come back: is it on a mount that hangs?")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        # A daemon: the collector must be able to end while this blocks in the kernel.
        self._running = threading.Thread(target=_carry_out, args=(work, loop, outcome), name=self._name, daemon=True)
        self._running.start()
        return await outcome


def _carry_out(work: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[T]") -> None:
    try:
        found = work()
    except UnhangError as error:
        _tell(loop, outcome, partial(outcome.set_exception, error))
    else:
        _tell(loop, outcome, partial(outcome.set_result, found))


def _tell(loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[T]", how: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if outcome.done() else how())
    except RuntimeError:
        pass  # the loop has ended, and nobody waits any more
