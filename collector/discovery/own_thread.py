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
        self._busy = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise its UnhangError. Raises Unreachable while an earlier one blocks."""
        if not self._busy.acquire(blocking=False):
            raise Unreachable("an earlier read of it has not come back: is it on a mount that hangs?")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        # A daemon: the collector must be able to end while this blocks in the kernel.
        threading.Thread(target=self._carry_out, args=(work, loop, outcome), name=self._name, daemon=True).start()
        return await outcome

    def _carry_out(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[T]") -> None:
        tell: Callable[[], object]
        try:
            tell = partial(outcome.set_result, work())
        except UnhangError as error:
            tell = partial(outcome.set_exception, error)
        finally:
            self._busy.release()
        try:
            loop.call_soon_threadsafe(lambda: None if outcome.done() else tell())
        except RuntimeError:
            pass  # the loop has ended, and nobody waits any more
