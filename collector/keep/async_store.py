"""The store for coroutines: a slow or broken database delays only its caller, and only for a limited time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from collector.concurrency.threads import run_in_thread
from collector.keep.database import StoreTrouble
from collector.keep.store import Store
from shared.missing import Missing, Reason

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""For a question to the store."""

CHECK_SECONDS = 2.0
"""For health checks: a probe would restart a collector that is silent for longer."""

NOTE_SECONDS = 5.0
NOTE_WHILE_BROKEN_SECONDS = 1.0
"""For entering a run. The sweep waits for it, so that two replicas do not begin the same one."""

SAVE_SECONDS = 30.0
SAVE_WHILE_BROKEN_SECONDS = 3.0
"""For keeping a diagnosis, for which its callers wait; that of a large job is hundreds of megabytes to pack."""

END_SECONDS = 2.0
"""For what is being written when the collector ends. A thread that waits for longer is abandoned: SQLite waits half a
minute for another program that writes, and our threads for each other."""

_THREADS = 8

_log = logging.getLogger(__name__)


class AsyncStore:
    """Asks the store in threads of its own: judging, which also needs threads, must not wait for a database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._threads = asyncio.Semaphore(_THREADS)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._unwritten: StoreTrouble | None = None

    async def ask(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store that reads. Raises what it raises, and StoreTrouble where it takes too long."""
        return await self._call(lambda: what(*args, **kwargs), ANSWER_SECONDS)

    async def note(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method that writes a little. Raises as `ask` does."""
        seconds = NOTE_SECONDS if self._unwritten is None else NOTE_WHILE_BROKEN_SECONDS
        return await self._write(lambda: what(*args, **kwargs), seconds)

    async def keep(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method that writes much. Raises as `ask` does."""
        seconds = SAVE_SECONDS if self._unwritten is None else SAVE_WHILE_BROKEN_SECONDS
        return await self._write(lambda: what(*args, **kwargs), seconds)

    async def trouble(self) -> Missing | None:
        """Return the public message while the store fails; its own error is in the log.

        A disk that was full counts as full until something is written again: reading says nothing about it.
        """
        failed = self._unwritten
        try:
            await self._call(self.store.check, CHECK_SECONDS)
        except StoreTrouble as trouble:
            failed = trouble
        if failed is None:
            return None
        return Missing(source="store", reason=Reason.UNREACHABLE, detail="the store fails; the service's log tells why")

    async def close(self) -> None:
        """Accept no more calls, and let those in progress finish, for a limited time."""
        self._is_closed = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=END_SECONDS)
        for left in self._under_way:
            left.cancel()

    async def _write(self, what: Callable[[], T], seconds: float) -> T:
        try:
            answer = await self._call(what, seconds)
        except StoreTrouble as trouble:
            if self._unwritten is None:
                _log.warning("nothing is kept from now on: %s", trouble)
            self._unwritten = trouble
            raise
        if self._unwritten is not None:
            _log.warning("the store works again")
        self._unwritten = None
        return answer

    async def _call(self, what: Callable[[], T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await self._in_thread(what)
        except TimeoutError as error:
            raise StoreTrouble(
                f"the store did not answer within {seconds:g} s", advice="see to the database"
            ) from error

    async def _in_thread(self, what: Callable[[], T]) -> T:
        """Call it in a thread, which stays occupied until the call returns, even if no caller waits any more."""
        await self._threads.acquire()
        if self._is_closed:
            self._threads.release()
            raise StoreTrouble("the collector ends", advice="ask again once it has restarted")
        call = asyncio.create_task(run_in_thread(what), name="store")
        self._under_way.add(call)
        call.add_done_callback(self._end)
        return await asyncio.shield(call)

    def _end(self, call: "asyncio.Task[Any]") -> None:
        self._under_way.discard(call)
        self._threads.release()
