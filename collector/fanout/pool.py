"""Connections to thousands of agents, kept for a moment between two looks.

httpcore's pool looks through all its connections whenever a request begins and when one ends; here one is looked up.
"""

import ssl
import time
from collections.abc import Callable

import httpx

from collector.fanout.connection import connect
from collector.fanout.wire import Wire

IDLE_SECONDS = 5.0
"""For so long a connection is kept on which nobody asks. Agents keep theirs for longer."""

_Origin = tuple[str, str, int]


class Pool(httpx.AsyncBaseTransport):
    """Asks each agent over the connection that is kept to it, or over one of its own.

    How many connections are in use at a time is for the caller to bound; here it is those that are kept idle.
    A request's extension `connecting` is told when a connection begins to be made for it, and when there is one.
    """

    def __init__(self, *, context: Callable[[], ssl.SSLContext], most_idle: int) -> None:
        """`context` is what TLS is spoken by, asked for before each connection: certificates may change."""
        self._context = context
        self._most_idle = most_idle
        self._kept: dict[_Origin, tuple[float, Wire]] = {}
        """Until when each is kept; the first are due first."""
        self._used: set[Wire] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask. Raises httpx.TransportError."""
        origin = _origin(request.url)
        wire = self._take(origin) or await self._connect(origin, request)
        self._used.add(wire)
        try:
            return await wire.ask(request, lambda done: self._keep(origin, done))
        except BaseException:
            self._drop(wire)
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        for wire in (*self._used, *(wire for _, wire in self._kept.values())):
            wire.close()
        self._used.clear()
        self._kept.clear()

    def _take(self, origin: _Origin) -> Wire | None:
        ends, wire = self._kept.pop(origin, (0.0, None))
        if wire is None or (ends > time.monotonic() and wire.is_usable):
            return wire
        wire.close()
        return None

    def _keep(self, origin: _Origin, wire: Wire) -> None:
        """Keep a connection, unless there are enough; the last one to an agent."""
        now = time.monotonic()
        self._close_all_due(now)
        if wire not in self._used or not wire.renew():
            self._drop(wire)
            return
        self._used.discard(wire)
        if (earlier := self._kept.pop(origin, None)) is not None:
            earlier[1].close()
        if len(self._kept) < self._most_idle:
            self._kept[origin] = (now + IDLE_SECONDS, wire)
        else:
            wire.close()

    def _close_all_due(self, now: float) -> None:
        while self._kept:
            origin, (ends, wire) = next(iter(self._kept.items()))
            if ends > now:
                return
            del self._kept[origin]
            wire.close()

    def _drop(self, wire: Wire) -> None:
        self._used.discard(wire)
        wire.close()

    async def _connect(self, origin: _Origin, request: httpx.Request) -> Wire:
        scheme, host, port = origin
        seconds = request.extensions.get("timeout", {}).get("connect")
        tell: Callable[[bool], None] = request.extensions.get("connecting", _ignore)
        tls = _for_http(self._context()) if scheme == "https" else None
        tell(True)
        try:
            connection = await connect(host, port, tls, seconds=seconds)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        tell(False)
        return Wire(connection)


def _origin(url: httpx.URL) -> _Origin:
    if url.scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"Request URL has an unsupported protocol '{url.scheme}://'.")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


_PORTS = {"http": 80, "https": 443}


def _for_http(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_alpn_protocols(["http/1.1"])
    return context


def _ignore(_: bool) -> None:
    """Tell nobody."""
