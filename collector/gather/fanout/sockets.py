"""What httpcore reaches agents by: TCP connections, plain or with TLS, straight from the event loop.

httpcore's own way to sockets, through anyio, takes 30 % more of the collector's time for each question.
"""

# ruff: noqa: ASYNC109 - httpcore asks for parameters with the name of `timeout`

import asyncio
import select
import socket
import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore

from collector.concurrency.threads import run_in_thread
from collector.gather.fanout.address_meanings import is_metadata, parse_ip

_MOST_AHEAD_BYTES = 262_144
"""Unread; with more of it the other side is made to wait."""

_NEXT_ADDRESS_SECONDS = 0.25
"""Before the next address of a host is tried beside the one before, as RFC 8305 has it."""

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class Backend(httpcore.AsyncNetworkBackend):
    """Connects. `local_address` and `socket_options` are ignored: no caller here sets them."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a connection within `timeout` seconds. Raises httpcore.ConnectError and ConnectTimeout."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(Connection, sock=await self.connected(host, port))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return connection

    async def connected(self, host: str, port: int) -> socket.socket:
        """Return a connected socket. Raises OSError, and what httpcore expects of `connect_tcp`."""
        if parse_ip(host) is not None:
            return await _connect((socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port)))
        found = await run_in_thread(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
        named = dict.fromkeys((family, address) for family, _, _, _, address in found)
        addresses: list[_Address] = [each for each in named if not _is_metadata(each)]
        if not addresses:
            raise OSError(f"{host} is {found[0][4][0]}, where a cloud tells about its machines: no agent is there")
        return await (_connect(addresses[0]) if len(addresses) == 1 else _connect_to_one(addresses))

    async def sleep(self, seconds: float) -> None:
        """Wait before another try."""
        await asyncio.sleep(seconds)


class Connection(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """Bytes to and from one host: a buffer between the event loop and who reads."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._has_ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._is_paused = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next piece, b"" after the end. Raises httpcore.ReadError of what broke, and ReadTimeout."""
        if self._came:
            await asyncio.sleep(0)  # who pours must not hold up the others
        elif not self._has_ended:
            await self._more(timeout)
        piece = bytes(self._came[:max_bytes])
        del self._came[:max_bytes]
        if not piece and self._error is not None:
            try:
                raise self._error
            except OSError as error:  # caught here, for httpcore's pool takes causes away and leaves contexts
                raise httpcore.ReadError(str(error)) from error
        if self._is_paused and not self._came and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send, or queue, for questions are short. Raises httpcore.WriteError where the connection has ended."""
        if self._has_ended or self._transport is None:
            raise httpcore.WriteError("the connection has ended") from self._error
        self._transport.write(buffer)

    async def aclose(self) -> None:
        """Close at once, and wait for nothing that was to be sent."""
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Shake hands within `timeout` seconds, or close. Raises httpcore.ConnectError and ConnectTimeout."""
        try:
            async with asyncio.timeout(timeout):
                self._transport = await self._with_tls(ssl_context, server_hostname)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks for by its own names, None of what it does not know."""
        if info == "is_readable":
            return self._is_readable()
        return None if self._transport is None else self._transport.get_extra_info(_INFO.get(info, info))

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

    async def _more(self, seconds: float | None) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._reader
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        finally:
            self._reader = None

    async def _with_tls(self, context: ssl.SSLContext, name: str | None) -> asyncio.Transport:
        if self._has_ended or self._transport is None:
            raise self._error or _broken_handshake()
        try:
            made = await asyncio.get_running_loop().start_tls(self._transport, self, context, server_hostname=name)
        except ConnectionResetError as error:
            if error.errno is not None:
                raise
            raise _broken_handshake() from error
        if made is None:
            raise _broken_handshake()
        return made

    def _is_readable(self) -> bool:
        """Is there something to read, or the end? A server closes connections, and a look at the socket shows it."""
        if self._has_ended or self._came or self._transport is None or self._transport.is_closing():
            return True
        ready = select.poll()
        ready.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(ready.poll(0))


_INFO = {"client_addr": "sockname", "server_addr": "peername"}
"""What asyncio calls differently."""


def _broken_handshake() -> ssl.SSLError:
    """Say as OpenSSL does what asyncio calls a reset, as if that had been seen of the network."""
    error = ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "unexpected end in the handshake")
    error.reason = "UNEXPECTED_EOF_WHILE_READING"
    return error


def _is_metadata(address: _Address) -> bool:
    """A name that led to an agent may lead to such a service later."""
    found = parse_ip(str(address[1][0]))
    return found is not None and is_metadata(found)


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
