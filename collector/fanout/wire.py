"""HTTP/1.1 over one connection, a question at a time; h11 speaks it, and httpx's errors tell what goes wrong."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import h11
import httpx

from collector.fanout.connection import Connection

_MOST_HEAD_BYTES = 100 * 1024
"""Of the head of an answer, or of the line before a chunk."""


class Wire:
    """One connection on which questions can be asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    @property
    def is_usable(self) -> bool:
        """May the next question be asked on it, as far as is known here?"""
        return self._connection.is_quiet

    async def ask(self, request: httpx.Request, on_end: Callable[["Wire"], None]) -> httpx.Response:
        """Send a request, and return the head of its answer. Raises httpx.TransportError.

        `on_end` is told when the answer is closed.
        """
        await self._send(request)
        head = await self.event(request)
        while isinstance(head, h11.InformationalResponse) and head.status_code != 101:
            head = await self.event(request)
        assert isinstance(head, h11.Response | h11.InformationalResponse)
        return httpx.Response(
            head.status_code,
            headers=head.headers.raw_items(),
            stream=_Rest(self, request, on_end),
            extensions={"http_version": b"HTTP/" + head.http_version, "reason_phrase": head.reason},
        )

    async def event(self, request: httpx.Request) -> Any:
        """Return the next event of h11's in the answer. Raises httpx.TransportError."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._connection.read()
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
                self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from error
        except OSError as error:
            raise httpx.ReadError(str(error), request=request) from error
        return event

    def renew(self) -> bool:
        """Make ready for the next question. Returns whether it can be: not where an answer was left unread."""
        if (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE) or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _send(self, request: httpx.Request) -> None:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        method, target = request.method.encode("ascii"), request.url.raw_path
        try:
            self._write(h11.Request(method=method, target=target, headers=request.headers.raw))
            async for part in request.stream:
                self._write(h11.Data(data=part))
            self._write(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from error

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._connection.write(data)


class _Rest(httpx.AsyncByteStream):
    """What follows the head of an answer."""

    def __init__(self, wire: Wire, request: httpx.Request, on_end: Callable[[Wire], None]) -> None:
        self._wire = wire
        self._request = request
        self._on_end: Callable[[Wire], None] | None = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._wire.event(self._request), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        """Be done with this answer, read to its end or not."""
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self._wire)
