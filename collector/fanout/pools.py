"""Connections to thousands of agents, in many small pools.

A pool of httpcore's looks through all its connections whenever a request begins and when one ends. With 256 under way
that took more of the collector's time than everything else; an agent's connections are in one of many pools instead.
"""

import ssl
import zlib

import httpcore
import httpx

from collector.fanout.connection import Backend

POOLS = 64

IDLE_SECONDS = 5.0
"""For so long a connection is kept on which nobody asks. Agents keep theirs for longer."""


class Pools(httpx.AsyncBaseTransport):
    """Sends each request through the pool that its host and port fall to.

    How many connections are in use at a time is for the caller to bound; here it is those that are kept idle.
    """

    def __init__(self, *, trusted: ssl.SSLContext, most_idle: int) -> None:
        self._pools = [_Pool(trusted, most_idle=max(1, most_idle // POOLS)) for _ in range(POOLS)]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask through the host's pool."""
        place = zlib.crc32(f"{request.url.host}:{request.url.port}".encode())
        return await self._pools[place % POOLS].handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.aclose()


class _Pool(httpx.AsyncHTTPTransport):
    """httpx's transport over httpcore's pool, with connections of our own: httpx has no parameter for these."""

    def __init__(self, trusted: ssl.SSLContext, *, most_idle: int) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted,
            max_connections=None,
            max_keepalive_connections=most_idle,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=Backend(),
        )
