"""Plain TCP between two nodes: listening on each interface, and connecting from one."""

import asyncio
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

ECHO_SECONDS = 5.0
_MOST_VISITORS = 64
_NONCE_BYTES = 16
_LARGE_BYTES = 65_536
"""Many packets of the largest size: where some device on the way drops these, nothing smaller shows it."""


class Target(NamedTuple):
    """Where to connect to. `own` is the address to come from; empty: as the kernel chooses."""

    path: str
    address: str
    port: int
    own: str = ""
    echoes: bool = True
    """False: something else of the job listens there."""


class Listeners:
    """What listens here while nodes try to reach each other."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._visitors = 0

    async def open(self, address: str, port: int) -> int | str:
        """Listen, and return the port; or why it cannot be."""
        try:
            server = await asyncio.start_server(self._echo, address, port, backlog=_MOST_VISITORS)
        except OSError as error:
            return error.strerror or str(error)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no longer."""
        for server in self._servers:
            server.close()
        self._servers = []

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visitors += 1
        try:
            if self._visitors <= _MOST_VISITORS:
                async with asyncio.timeout(ECHO_SECONDS):
                    for size in (_NONCE_BYTES, _LARGE_BYTES):
                        writer.write(await reader.readexactly(size))
                        await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            self._visitors -= 1
            writer.close()


async def connect_all(targets: Iterable[Target], seconds: float) -> dict[str, str]:
    """Try all of them at the same time; return by path why it failed, or nothing where it worked."""
    each = list(targets)
    found = await asyncio.gather(*(_connect(target, seconds) for target in each))
    return {target.path: why for target, why in zip(each, found, strict=True)}


async def _connect(target: Target, seconds: float) -> str:
    writer = None
    began = time.monotonic()
    small = False
    try:
        async with asyncio.timeout(seconds):
            own = (target.own, 0) if target.own else None
            reader, writer = await asyncio.open_connection(target.address, target.port, local_addr=own)
            if target.echoes:
                if not await _is_echoed(reader, writer, _NONCE_BYTES):
                    return "something else answered there"
                small = True
                if not await _is_echoed(reader, writer, _LARGE_BYTES):
                    return "what came back has changed"
            return ""
    except TimeoutError:
        if small:
            return f"{_NONCE_BYTES} bytes came back, {_LARGE_BYTES} did not within {time.monotonic() - began:.0f} s"
        return f"no answer within {time.monotonic() - began:.0f} s"
    except asyncio.IncompleteReadError:
        return "the connection was closed"
    except OSError as error:
        return error.strerror or str(error)
    finally:
        if writer is not None:
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.2):
                    await writer.wait_closed()


async def _is_echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> bool:
    sent = secrets.token_bytes(size)
    writer.write(sent)
    await writer.drain()
    return await reader.readexactly(size) == sent
