"""Work that may block forever, such as reading a file on a mount that is gone, in a thread that delays no one."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from shared.errors import UnhangError, Unreachable, quoted

T = TypeVar("T")

_log = logging.getLogger(__name__)


class OwnThread:
    """Runs one piece of work at a time; the next one is refused while the last has not come back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._busy = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise its UnhangError.

        Raises Unreachable while an earlier one blocks, where no thread can be begun, and for any other mistake.
        """
        if not self._busy.acquire(blocking=False):
            raise Unreachable("an earlier read of it has not come back: is it on a mount that hangs?")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        # A daemon: the collector must be able to end while this blocks in the kernel.
        thread = threading.Thread(target=self._carry_out, args=(work, loop, outcome), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the machine, or our control group, has no more
            self._busy.release()
            raise Unreachable(f"it cannot be read now: {error}") from error
        return await outcome

    def _carry_out(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[T]") -> None:
        tell: Callable[[], object]
        try:
            tell = partial(outcome.set_result, work())
        except UnhangError as error:
            tell = partial(outcome.set_exception, error)
        except Exception as error:  # noqa: BLE001 - the caller that awaits the outcome must get one
            _log.error("%s: a mistake of ours", self._name, exc_info=error)
            told = f"reading it ended with {type(error).__name__} {quoted(str(error))}"
            tell = partial(outcome.set_exception, Unreachable(told))
        finally:
            self._busy.release()
        try:
            loop.call_soon_threadsafe(lambda: None if outcome.done() else tell())
        except RuntimeError:
            pass  # the loop has ended, and no caller waits any more


async def run_in_thread(call: Callable[..., T], *arguments: object) -> T:
    """Return what `call` returns, or raise what it raises, without holding up the event loop."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if outcome.done():  # no caller waits any more
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
        except StopIteration as caught:  # a future takes none: its caller would wait forever
            error = RuntimeError("StopIteration")
            error.__cause__ = caught
        except BaseException as caught:  # noqa: BLE001 - it is raised where it is awaited
            error = caught
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await outcome
