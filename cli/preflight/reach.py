"""Plain TCP between two nodes: listening on ports of each interface, and connecting from one; measured by the kernel.

What tells one fault from another: which of several ports answer, whether much arrives, whether it does in small packets
where it does not in full ones, and how many packets had to be sent again.
"""

import asyncio
import hashlib
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from pydantic import Field

from shared.value import Value

ECHO_SECONDS = 12.0
_MOST_VISITORS = 512
_NONCE_BYTES = 16
LARGE_BYTES = 2 << 20
"""More than a thousand packets: of one in a hundred that is lost, some are among them."""

SMALL_PACKETS = (1300, 1000, 500)
"""Sizes that are tried where full packets do not arrive."""

_FEW_BYTES = 65_536
_STALLED_SECONDS = 1.5
_STEP_SECONDS = 3.0
_MOST_BYTES = 4 << 20
_SIZE = struct.Struct("!I")

# struct tcp_info of linux/tcp.h: retransmits that were needless (the other end had it all along) are counted apart.
_TCP_INFO = struct.Struct("=100xI44xI4xI32xI20xI")
_TCP_INFO_BYTES = 220


class Target(Value):
    """Where to connect to. `own` is the address to come from; empty: as the kernel chooses."""

    path: str
    address: str
    ports: tuple[int, ...] = Field(max_length=32)
    own: str = ""
    echoes: bool = True
    """False: something else of the job listens there."""


class Reached(Value):
    """What came of one target."""

    failed: Mapping[int, str] = {}
    """By port: why there is no connection, or why nothing came back on it."""
    large: str = ""
    """Why much did not arrive where little did; empty where it did."""
    largest: int = 0
    """Of packets that arrived where full ones did not; 0: none, or not tried."""
    arrived: int = 0
    """Packets that the other end has confirmed."""
    sent: int = 0
    """Packets."""
    resent: int = 0
    seconds: float = 0.0
    """That LARGE_BYTES took."""
    trip_seconds: float = 0.0
    """The shortest time until an answer came."""


class Listeners:
    """What listens here while nodes try to reach each other."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._visitors = 0

    async def open(self, address: str, port: int) -> int | str:
        """Listen, and return the port; or why it cannot be."""
        try:
            # Of addresses that may be used again the kernel gives ports of the lower half of its range alone.
            server = await asyncio.start_server(
                self._answer, address, port, backlog=_MOST_VISITORS, reuse_address=bool(port)
            )
        except OSError as error:
            return error.strerror or str(error)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no longer."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Return a nonce, and then the digest of as many bytes as are announced."""
        self._visitors += 1
        try:
            if self._visitors <= _MOST_VISITORS:
                async with asyncio.timeout(ECHO_SECONDS):
                    writer.write(await reader.readexactly(_NONCE_BYTES))
                    (left,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                    digest = hashlib.sha256()
                    left = min(left, _MOST_BYTES)
                    while left and (part := await reader.read(min(left, 65_536))):
                        digest.update(part)
                        left -= len(part)
                    writer.write(digest.digest())
                    await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            self._visitors -= 1
            writer.close()


async def reach_all(targets: Iterable[Target]) -> dict[str, Reached]:
    """Try all of them at the same time; return by path what came of it."""
    each = list(targets)
    found = await asyncio.gather(*(_reach(target) for target in each))
    return {target.path: what for target, what in zip(each, found, strict=True)}


async def _reach(target: Target) -> Reached:
    """Connect to all ports, to those that fail once more; then send much to one that answers."""
    failed = await _connect_all(target, target.ports)
    if failed and len(failed) < len(target.ports):
        again = await _connect_all(target, tuple(failed))
        failed = {port: why for port, why in failed.items() if port in again}
    good = [port for port in target.ports if port not in failed]
    if not good or not target.echoes or len(target.ports) == 1:
        return Reached(failed=failed)
    sending = asyncio.create_task(_send_again(target, good))
    await asyncio.wait([sending], timeout=_STALLED_SECONDS)
    trying = {} if sending.done() else {size: _send(target, good[-1], _FEW_BYTES, size) for size in SMALL_PACKETS}
    small = dict(zip(trying, await asyncio.gather(*trying.values()), strict=True))
    whole = await sending
    arrived = [size for size, what in small.items() if what.seconds] if whole.large else []
    return whole.model_copy(update={"failed": {**failed, **whole.failed}, "largest": max(arrived, default=0)})


async def _send_again(target: Target, good: list[int]) -> Reached:
    """Send much; once more where there was no connection: from another port of ours there may be one."""
    found = await _send(target, good[0], LARGE_BYTES)
    return await _send(target, good[-1], LARGE_BYTES) if found.failed else found


async def _connect_all(target: Target, ports: tuple[int, ...]) -> dict[int, str]:
    whys = await asyncio.gather(*(_greet(target, port) for port in ports))
    return {port: why for port, why in zip(ports, whys, strict=True) if why}


async def _greet(target: Target, port: int) -> str:
    """Connect, and have a nonce returned; return why that failed."""
    began = time.monotonic()
    opened = False
    try:
        async with asyncio.timeout(_STEP_SECONDS):
            with _socket(target) as own:
                await asyncio.get_running_loop().sock_connect(own, (target.address, port))
                opened = True
                nonce = os.urandom(_NONCE_BYTES)
                if target.echoes and not await _exchange(own, nonce, nonce):
                    return "something else answered there"
        return ""
    except TimeoutError:
        waited = f"within {time.monotonic() - began:.0f} s"
        return f"connected, and {_NONCE_BYTES} bytes did not come back {waited}" if opened else f"no answer {waited}"
    except OSError as error:
        return error.strerror or str(error)


async def _send(target: Target, port: int, size: int, packet: int = 0) -> Reached:
    """Send so much in packets of at most that size; 0: as the kernel finds right."""
    data = os.urandom(size)
    began = time.monotonic()
    why, figures, greeted = "", Reached(), False
    try:
        with _socket(target, packet) as own:
            try:
                async with asyncio.timeout(_STEP_SECONDS):
                    await asyncio.get_running_loop().sock_connect(own, (target.address, port))
                    nonce = os.urandom(_NONCE_BYTES)
                    greeted = await _exchange(own, nonce, nonce)
                    began = time.monotonic()
                    digest = hashlib.sha256(data).digest()
                    if not await _exchange(own, _SIZE.pack(size) + data, digest):
                        why = "what arrived had changed"
            except TimeoutError:
                what = f"{size} bytes did not arrive" if greeted else "no answer"
                why = f"{what} within {time.monotonic() - began:.0f} s"
            figures = _figures(own)
    except OSError as error:
        why = error.strerror or str(error)
    if not greeted:
        return figures.model_copy(update={"failed": {port: why or "something else answered there"}})
    return figures.model_copy(update={"large": why, "seconds": 0.0 if why else time.monotonic() - began})


def _socket(target: Target, packet: int = 0) -> socket.socket:
    own = socket.socket(socket.AF_INET6 if ":" in target.address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        own.setblocking(False)
        if packet:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, packet)
        if target.own:
            own.bind((target.own, 0))
    except OSError:
        own.close()
        raise
    return own


async def _exchange(own: socket.socket, data: bytes, answer: bytes) -> bool:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(own, data)
    received = b""
    while len(received) < len(answer) and (part := await loop.sock_recv(own, len(answer) - len(received))):
        received += part
    return received == answer


def _figures(own: socket.socket) -> Reached:
    """Return what the kernel has counted; nothing where it is too old to say."""
    with suppress(OSError, struct.error):
        told = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        resent, trip_us, sent, arrived, needless = _TCP_INFO.unpack(told[:_TCP_INFO_BYTES])
        lost = max(0, resent - needless)
        return Reached(arrived=arrived, sent=sent, resent=lost, trip_seconds=trip_us / 1e6)
    return Reached()
