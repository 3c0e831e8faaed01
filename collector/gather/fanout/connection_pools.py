"""Connections to thousands of agents, in many small pools.

A pool of httpcore's looks through all its connections whenever a request begins and when one ends. With 256 under way
that took more of the collector's time than everything else; an agent's connections are in one of many pools instead.
"""

import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial

import httpcore
import httpx

from collector.gather.fanout.sockets import Backend

POOLS = 64

IDLE_SECONDS = 5.0
"""How long an unused connection is kept. Agents keep theirs for longer."""


class Pools(httpx.AsyncBaseTransport):
    """Sends each request through the pool that its host and port fall to.

    How many connections are in use at a time is for the caller to bound; here it is those that are kept idle. What is
    `trusted` is asked for with the first request over TLS: to read all authorities takes 20 ms.
    """

    def __init__(self, *, trusted: Callable[[], ssl.SSLContext], most_idle: int) -> None:
        self._trusted, self._most_idle = cache(trusted), max(1, most_idle // POOLS)
        self._pools: dict[tuple[bool, int], _Pool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask through the host's pool."""
        secure = request.url.scheme == "https"
        place = secure, zlib.crc32(f"{request.url.host}:{request.url.port}".encode()) % POOLS
        if place not in self._pools:
            self._pools[place] = _Pool(self._trusted() if secure else None, most_idle=self._most_idle)
        return await self._pools[place].handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in list(self._pools.values()):
            await pool.aclose()


class _Pool(httpx.AsyncHTTPTransport):
    """httpx's transport over httpcore's pool, with connections of our own: httpx has no parameter for these.

    A request that is cancelled at the wrong moment leaves its connection in httpcore's pool for good, neither used nor
    idle. A pool that holds such connections is replaced as soon as it has no request.
    """

    def __init__(self, trusted: ssl.SSLContext | None, *, most_idle: int) -> None:
        self._make = partial(
            httpcore.AsyncConnectionPool,
            ssl_context=trusted,
            max_connections=None,
            max_keepalive_connections=most_idle,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=Backend(),
        )
        self._pool = self._make()
        self._under_way = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask."""
        self._under_way += 1
        try:
            response = await super().handle_async_request(request)
        except BaseException:
            await self._end_one()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Answer(response.stream, self._end_one)
        return response

    async def _end_one(self) -> None:
        self._under_way -= 1
        if not self._under_way and not all(each.is_idle() or each.is_closed() for each in self._pool.connections):
            left, self._pool = self._pool, self._make()
            await left.aclose()


class _Answer(httpx.AsyncByteStream):
    """An answer that tells when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, on_end: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._on_end: Callable[[], Awaitable[None]] | None = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        """Close it, once."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            try:
                await self._stream.aclose()
            finally:
                await on_end()
