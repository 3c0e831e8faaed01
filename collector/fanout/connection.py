"""A TCP connection to an agent, plain or with TLS: a buffer between the event loop and who reads.

httpcore's own way to sockets, through anyio, takes three times as much of the collector's time.
"""

import asyncio
import ipaddress
import select
import socket
import ssl
from typing import Any, cast

_PIECE_BYTES = 65_536
"""Most that is read at once: what one agent sends must not hold up the others."""

_MOST_AHEAD_BYTES = 262_144
"""Unread; with more of it the other side is made to wait."""

_NEXT_ADDRESS_SECONDS = 0.25
"""Before the next address of a host is tried beside the one before, as RFC 8305 has it."""

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class Connection(asyncio.Protocol):
    """Bytes to and from one host, for one who reads."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._has_ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._is_paused = False

    @property
    def is_quiet(self) -> bool:
        """Is it there, and nothing to be read on it? A server closes connections, and a look at the socket shows it."""
        if self._has_ended or self._came or self._transport is None or self._transport.is_closing():
            return False
        ready = select.poll()
        ready.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not ready.poll(0)

    def write(self, data: bytes) -> None:
        """Send, or queue. Where that is not possible, reading tells why."""
        assert self._transport is not None
        self._transport.write(data)

    async def read(self) -> bytes:
        """Return the next piece, b"" after the end. Raises OSError of a connection that broke."""
        if self._came:
            await asyncio.sleep(0)
        elif not self._has_ended:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        piece = bytes(self._came[:_PIECE_BYTES])
        del self._came[:_PIECE_BYTES]
        if not piece and self._error is not None:
            raise self._error
        if self._is_paused and not self._came and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    def close(self) -> None:
        """Close at once, and wait for nothing that was to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take note of what came."""
        self._came += data
        if len(self._came) > _MOST_AHEAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._tell_reader()

    def eof_received(self) -> None:
        """Take note of the end; the transport closes itself."""
        self._has_ended = True
        self._tell_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end, and of why."""
        self._has_ended = True
        self._error = exc
        self._tell_reader()

    def _tell_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, *, seconds: float | None) -> Connection:
    """Return a connection, with TLS if there is a context. Raises OSError, be it of names or TLS, and TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        connected = await _connected(host, port)
        name = None if tls is None else host
        try:
            _, connection = await loop.create_connection(Connection, sock=connected, ssl=tls, server_hostname=name)
        except ConnectionResetError as error:
            if error.errno is not None:
                raise
            raise _broken_handshake() from error
        return connection


def _broken_handshake() -> ssl.SSLError:
    """Say as OpenSSL does what asyncio calls a reset, as if that had been seen of the network."""
    error = ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "unexpected end in the handshake")
    error.reason = "UNEXPECTED_EOF_WHILE_READING"
    return error


async def _connected(host: str, port: int) -> socket.socket:
    if is_address(host):
        return await _connect((socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port)))
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses: list[_Address] = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    return await (_connect(addresses[0]) if len(addresses) == 1 else _connect_to_one(addresses))


async def _connect_to_one(addresses: list[_Address]) -> socket.socket:
    """Try one address after the other, a moment apart, and keep the first connection."""
    waiting, errors = list(reversed(addresses)), []
    trying: set[asyncio.Task[socket.socket]] = set()
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_connect(waiting.pop())))
            done, _ = await asyncio.wait(
                trying, timeout=_NEXT_ADDRESS_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                trying.discard(task)
                if (error := task.exception()) is None:
                    return task.result()
                errors.append(error)
    finally:
        for task in trying:
            task.cancel()
            task.add_done_callback(_close)
    raise OSError("no address of the host takes a connection") from BaseExceptionGroup("tried", errors)


def _close(task: "asyncio.Task[socket.socket]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connect(address: _Address) -> socket.socket:
    family, where = address
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio leaves Nagle's delays on
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
    except BaseException:
        made.close()
        raise
    return made


def is_address(host: str) -> bool:
    """Is it the address of a host, rather than a name that is to be looked up?"""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
