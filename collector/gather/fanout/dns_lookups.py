"""Host names are looked up beside each other, before a connection is made.

asyncio resolves names in a handful of threads for the whole process. A few names that no server answers block these for
as long as the resolver tries, about 10 s, and no other name is resolved. Here each name has its own thread.
"""

import asyncio
import socket
import time

import httpx

from collector.concurrency.threads import run_in_thread
from collector.gather.fanout.address_meanings import parse_ip

_STANDS_SECONDS = 60.0
"""How long a lookup is not repeated here; the connection itself resolves the name again, quickly now."""

_MOST_AT_ONCE = 256
_MOST_KNOWN = 200_000


class NoNameServer(httpx.ConnectTimeout):
    """No name server returned a host's address in time."""


class LookingUp(httpx.AsyncBaseTransport):
    """Hands requests on once it is known that the names of their hosts can be looked up."""

    def __init__(self, onward: httpx.AsyncBaseTransport) -> None:
        self._onward = onward
        self._known: dict[str, float] = {}
        """Until when a name counts as found."""
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Look up and ask. Raises httpx.ConnectError of a name that is not known, and NoNameServer."""
        host, seconds = request.url.host, request.extensions.get("timeout", {}).get("connect")
        if self._known.get(host, 0.0) < time.monotonic() and parse_ip(host) is None:
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.shield(self._task(host))
            except TimeoutError as error:
                raise NoNameServer(f"DNS lookup failed: no answer within {seconds} s", request=request) from error
            except OSError as error:
                raise httpx.ConnectError(str(error), request=request) from error
        return await self._onward.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections, and wait for no name any more."""
        for task in self._asked.values():
            task.cancel()
        await self._onward.aclose()

    def _task(self, host: str) -> "asyncio.Task[None]":
        """Look up a name once for all who wait for it."""
        if host not in self._asked:
            task = self._asked[host] = asyncio.create_task(self._find(host))
            task.add_done_callback(lambda done: self._note(host, done))
        return self._asked[host]

    async def _find(self, host: str) -> None:
        async with self._turns:
            await run_in_thread(socket.getaddrinfo, host, None, 0, socket.SOCK_STREAM)

    def _note(self, host: str, done: "asyncio.Task[None]") -> None:
        del self._asked[host]
        if not done.cancelled() and done.exception() is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[host] = time.monotonic() + _STANDS_SECONDS
