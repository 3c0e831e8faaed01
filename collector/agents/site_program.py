"""A program of the site, run with limits on its output; the caller sets the deadline."""

import asyncio
import os
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence

from collector.gather.failures import NoAnswer
from shared.errors import quoted
from shared.missing import Reason

MOST_BYTES = 16_777_216
_BUFFER_BYTES = 65_536
_OURS = "UNHANG_"
_BURIAL_SECONDS = 1.0


async def run_program(arguments: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return what the program writes. Raises NoAnswer where it is absent, fails, or writes too much.

    It and all that it starts are killed where this is cancelled. Our own variables, which may hold passwords, are
    not handed on.
    """
    handed = {name: value for name, value in environment.items() if not name.startswith(_OURS)}
    loop = asyncio.get_running_loop()
    try:
        transport, streams = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_BUFFER_BYTES, loop=loop),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=handed,
            start_new_session=True,
        )
    except OSError as error:
        raise NoAnswer(Reason.NOT_FOUND, f"{arguments[0]} cannot be run: {error.strerror}") from error
    process = Process(transport, streams, loop)
    try:
        written = await _read(process, arguments[0])
        status = await process.wait()
    finally:
        _kill_group(process.pid)
        try:
            await _bury(process)
        finally:
            transport.close()  # our end of its pipe, even if a process that left the group holds the other
    if status != 0:
        raise NoAnswer(Reason.UNREADABLE, f"{arguments[0]} ended with status {status}: {quoted(written)}")
    return written


async def _read(process: Process, name: str) -> bytes:
    assert process.stdout is not None
    written = bytearray()
    while part := await process.stdout.read(_BUFFER_BYTES):
        written += part
        if len(written) > MOST_BYTES:
            raise NoAnswer(Reason.REFUSED, f"{name} writes more than {MOST_BYTES} bytes")
    return bytes(written)


async def _bury(process: Process) -> None:
    """Wait until it is gone, but not for one that is blocked in the kernel, which no signal ends."""
    try:
        async with asyncio.timeout(_BURIAL_SECONDS):
            await process.wait()
    except TimeoutError:
        pass  # asyncio's watcher reaps it, should it ever end


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
