"""Where connections arrive, before HTTP: is the address allowed, does TLS succeed, does a request come at all?

uvicorn hands every connection to one protocol class. Ours does the TLS itself, through asyncio's `start_tls`, for three
reasons: uvicorn never reloads certificates, it does not report failed handshakes, and this way the names in a
client's certificate are known before a byte of HTTP is read.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.accepting.kept_connections import KeptConnection
from shared.server.audit import Refused
from shared.server.connection_limits import Guest
from shared.server.gate import MOST_HEAD_BYTES
from shared.server.plain_requests import json_answer
from shared.server.tls import ServerTls, explain_tls, names_of

HANDSHAKE_SECONDS = 5.0
HEAD_SECONDS = 10.0
"""For the head of a request, from its connection or, on one that is kept open, from its first byte."""

READ_SECONDS = 30.0
"""For a client to take some more of its answer. Also before that it counts as idle while it takes none."""

KEPT_FOR_PLAIN_SECONDS = 900.0
"""From the first, however many come: whoever is gone without a word holds nothing, and replicas share what there is."""


def protocol_of(guard: ConnectionGuard) -> type[asyncio.Protocol]:
    """Return the class to give to uvicorn as `http`."""
    return type("GuardedProtocol", (_GuardedProtocol,), {"guard": guard})


class _GuardedProtocol(asyncio.Protocol):
    """A connection of which nothing is known yet. Called by uvicorn like a protocol class of its own."""

    guard: ConnectionGuard

    def __init__(self, *, client: str, declined: bytes, **uvicorns: Any) -> None:
        """`declined`: what it has brought already, to which nobody has an answer ready."""
        self._uvicorns = uvicorns
        self._client = client
        self._declined = declined
        self._state = uvicorns["server_state"]
        self._early = bytearray()
        self._lost = False
        self._guest: Guest | None = None
        self._kept: KeptConnection | None = None
        self._below: asyncio.Transport | None = None
        """What carries TLS."""
        self._context: ssl.SSLContext | None = None
        self.transport: asyncio.Transport | None = None
        """Over which a request may come: after the handshake."""
        self._name: str | None = None
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the address, start the handshake, or wait for a request."""
        assert isinstance(transport, asyncio.Transport)
        _send_at_once(transport)
        client = self._client
        if not self.guard.admits(client):
            self._turn_away(transport, client, Refused.ADDRESS)
            return
        if not self._enter(transport):
            return
        if self.guard.tls is None:
            self._await_request(transport)
        else:
            transport.pause_reading()
            self._begin_handshake(transport, client, self.guard.tls)

    def data_received(self, data: bytes) -> None:
        """Keep what comes with the end of the handshake; it is HTTP already. Of a request, answer what is plain."""
        if self.transport is None:
            self._early += data
        elif not self.transport.is_closing():
            answer = None if data == self._declined else self.guard.answer_at_once(data, self._client)
            if answer is None:
                self._begin_http(self.transport, data)
                return
            kept = self._keep() if answer.may_keep else None
            self.transport.write(json_answer(answer.text, self._state.default_headers, kept=kept is not None))
            if kept is None:
                self.transport.close()
            else:
                kept.rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client is gone."""
        self._lost = True
        self._state.connections.discard(self)
        if self._late is not None:
            self._late.cancel()
        self._leave()

    def shutdown(self) -> None:
        """End as uvicorn asks: nothing is being answered. Who waits for its next turn does not read a farewell."""
        if self.transport is not None:
            self.transport.close() if self._kept is None else self.transport.abort()

    def _enter(self, transport: asyncio.Transport) -> bool:
        self._guest = self.guard.connections.enter(self._client, partial(self._make_room, transport, self._client))
        if self._guest is None:
            self._turn_away(transport, self._client, Refused.TOO_MANY)
        return self._guest is not None

    def _begin_handshake(self, transport: asyncio.Transport, client: str, tls: ServerTls) -> None:
        guest = self.guard.handshakes.enter(client, partial(self._make_room, transport, client))
        if guest is None:
            self._turn_away(transport, client, Refused.TOO_MANY)
            return
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport, client, tls))
        self.guard.tasks.add(task)
        task.add_done_callback(self.guard.tasks.discard)
        task.add_done_callback(lambda _: guest.leave())

    async def _shake_hands(self, plain: asyncio.Transport, client: str, tls: ServerTls) -> None:
        self._below, self._context = plain, tls.context()
        try:
            transport = await asyncio.get_running_loop().start_tls(
                plain, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (ConnectionResetError, BrokenPipeError):  # hung up and asked for nothing, as a probe of the port does
            self._leave()
            plain.abort()
            return
        except (OSError, asyncio.CancelledError) as error:
            self._turn_away(plain, client, Refused.HANDSHAKE, _explain(error))
            return
        if transport is None or self._lost:
            self._leave()
            return
        names = names_of(transport.get_extra_info("peercert"))
        if tls.admits(names):
            self._await_request(transport, *names[:1])
        else:
            self._turn_away(transport, client, Refused.NAME, ", ".join(names))

    def _turn_away(self, transport: asyncio.Transport, client: str, reason: Refused, detail: str = "") -> None:
        self.guard.refuse(client, reason, detail)
        self._leave()
        transport.abort()

    def _make_room(self, transport: asyncio.Transport, client: str) -> None:
        self._turn_away(transport, client, Refused.TOO_MANY, "idle, closed in favour of a new connection")

    def _leave(self) -> None:
        for held in (self._guest, self._kept):
            if held is not None:
                held.leave()

    def _await_request(self, transport: asyncio.Transport, name: str | None = None) -> None:
        self.transport, self._name = transport, name
        self._state.connections.add(self)
        self._await(HEAD_SECONDS, partial(_give_up, transport, self.guard))
        if self._early:
            self.data_received(bytes(self._early))

    def _await(self, seconds: float, in_vain: Callable[[], None]) -> None:
        """Set the clock anew for what is to come."""
        if self._late is not None:
            self._late.cancel()
        self._late = asyncio.get_running_loop().call_later(seconds, in_vain)

    def _keep(self) -> KeptConnection | None:
        """Keep this connection, where there is room, and the certificates are those of its handshake."""
        if self._below is None or self.guard.tls is None or self.guard.tls.context() is not self._context:
            return None
        if self._kept is None and (kept := self.guard.kept.enter(self._client, self._below)) is not None:
            self._leave()
            self._kept = kept
            self._await(KEPT_FOR_PLAIN_SECONDS, self.shutdown)
        return self._kept

    def _begin_http(self, transport: asyncio.Transport, data: bytes) -> None:
        """Have uvicorn read all that comes."""
        if self._kept is not None:
            self._leave()
            self._kept = None
            if not self._enter(transport):
                return
            self._await(HEAD_SECONDS, partial(_give_up, transport, self.guard))
        state = self._uvicorns["app_state"]
        http = _Http(**{**self._uvicorns, "app_state": {**state, "client_name": self._name}})
        http.guard, http.guest, http.late = self.guard, self._guest, self._late
        self._state.connections.discard(self)
        transport.set_protocol(http)
        http.connection_made(transport)
        http.data_received(data)


class _Http(H11Protocol):
    """uvicorn's HTTP, where a head that does not come or makes no sense ends the connection and is written down."""

    guard: ConnectionGuard
    guest: Guest | None = None
    cycle: RequestResponseCycle | None  # type: ignore[assignment] # as it is before the first request
    late: asyncio.TimerHandle | None = None
    """Gives the client up; set while a head is awaited."""
    _unread: asyncio.TimerHandle | None = None
    _head_bytes = 0
    """Of a head that is not whole yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether a head is awaited still."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._head_bytes = 0
            self._stop_waiting()
        self._note()

    def on_response_complete(self) -> None:
        """See whether the next request has come already."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Begin to wait for the client, which does not read: no room is kept for it (connection_limits.py)."""
        super().pause_writing()
        self._note()
        self._wait_for_reader(None)

    def resume_writing(self) -> None:
        """See that the client reads."""
        super().resume_writing()
        self._note()
        self._stop_waiting_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        self._stop_waiting_for_reader()
        if self.guest is not None:
            self.guest.leave()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has a head without end."""
        reason = Refused.TOO_LARGE if self._head_bytes > MOST_HEAD_BYTES else Refused.MALFORMED
        self.guard.refuse(_address_of(self.transport), reason, msg)
        super().send_400_response(msg)

    def _note(self) -> None:
        if self.guest is not None:
            now = self.cycle
            answering = now is not None and not now.more_body and not now.response_complete
            self.guest.note(busy=answering and not self.flow.write_paused)

    def _wait_for_head(self) -> None:
        if self.late is None:
            self.late = self.loop.call_later(HEAD_SECONDS, _give_up, self.transport, self.guard)

    def _stop_waiting(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _wait_for_reader(self, before: int | None) -> None:
        """Give the client up where as much is left for it to read as `before`."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            _give_up(self.transport, self.guard)
        else:
            self._unread = self.loop.call_later(READ_SECONDS, self._wait_for_reader, left)

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _give_up(transport: asyncio.Transport, guard: ConnectionGuard) -> None:
    if not transport.is_closing():
        guard.refuse(_address_of(transport), Refused.TOO_SLOW)
        transport.abort()


def _send_at_once(transport: asyncio.BaseTransport) -> None:
    """Send a body without waiting until the client has acknowledged its head, which takes 40 ms on a kept connection.

    asyncio does so itself where the listening socket names its protocol, which `socket.create_server` leaves out.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.proto == socket.IPPROTO_TCP:
        return
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # gone already
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)


def _address_of(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else "unknown"


def _explain(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return explain_tls(error)
    if isinstance(error, asyncio.CancelledError):
        return "this service shut down meanwhile"
    return str(error) or type(error).__name__
