"""One round over ssh: every host once, a bounded number at a time, under one deadline, and nothing left behind.

A host that fails costs its own looks, never the others'. What a host sends is bounded and validated as bytes.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_failures import explain_ssh
from collector.gather.bounded_body import MOST_BODY_BYTES
from collector.gather.failures import NoAnswer
from collector.gather.fanout.fanout import read_answer
from collector.gather.fanout.values import RequestDeadline
from shared.errors import InvalidSettings, quoted
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot

_MOST_SAID = 16_384
_LAST_WORDS_SECONDS = 0.5
"""For standard error once the rest has ended: a connection that others share may hold it open."""

_BURIAL_SECONDS = 1.0
_BUFFER_BYTES = 65_536


@dataclass(frozen=True)
class HostVisit:
    """What came of one host: looks, or why there are none, or both where it broke off."""

    host: str
    looks: tuple[NodeSnapshot, ...] = ()
    missing: Missing | None = None


class SshRound:
    """Visits hosts."""

    def __init__(self, way: Way, *, most_at_once: int, host_seconds: float, deadline: RequestDeadline) -> None:
        self._way = way
        self._turns = asyncio.Semaphore(most_at_once)
        self._host_seconds = host_seconds
        self._deadline = deadline

    async def visit_all(
        self, looks: Sequence[tuple[str, HostQuestion]], on_progress: Callable[[int], Awaitable[None]]
    ) -> tuple[HostVisit, ...]:
        """Visit each host, and return what came of it in the order of `looks`, by the deadline."""
        finished = 0

        async def one(host: str, look: HostQuestion) -> HostVisit:
            nonlocal finished
            visit = await self._visit(host, look)
            finished += 1
            await on_progress(finished)
            return visit

        return tuple(await asyncio.gather(*(one(host, look) for host, look in looks)))

    async def _visit(self, host: str, look: HostQuestion) -> HostVisit:
        out = bytearray()
        cut: NoAnswer | None = None
        ended: NoAnswer | None = None
        budget = self._deadline.seconds_left
        try:
            async with asyncio.timeout(budget), self._turns:
                budget = min(self._host_seconds, self._deadline.seconds_left)
                async with asyncio.timeout(budget):
                    ended = await self._run(self._way.command(host, look), out)
        except TimeoutError:
            cut = NoAnswer(Reason.TIMED_OUT, f"no answer within {budget:.1f} s")
        except NoAnswer as error:
            cut = error
        looks, broken = await asyncio.to_thread(_read_looks, bytes(out), look.count)
        if len(looks) == look.count:
            return HostVisit(host, looks)
        why = cut or broken or ended or NoAnswer(Reason.UNREADABLE, f"{len(looks)} looks arrived, not {look.count}")
        return HostVisit(host, looks, Missing(source=f"ssh {host}", reason=why.reason, detail=str(why)))

    async def _run(self, command: Sequence[str], out: bytearray) -> NoAnswer:
        """Run one ssh to its end, its output going to `out`; return why nothing came, if nothing did."""
        ssh = await _started(command)
        process = ssh.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        said = bytearray()
        helpers = [
            asyncio.create_task(_feed(process.stdin, self._way.program)),
            asyncio.create_task(_read_end(process.stderr, said)),
        ]
        try:
            await _read_all(process.stdout, out)
            await ssh.ended.wait()
            await asyncio.wait(helpers[1:], timeout=_LAST_WORDS_SECONDS)
            assert process.returncode is not None
            return explain_ssh(process.returncode, bytes(said))
        finally:
            for helper in helpers:
                helper.cancel()
            await _end(ssh)


class _Streams(SubprocessStreamProtocol):
    """asyncio's, and tells when the process has ended: `Process.wait` also waits until nobody holds its pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_BUFFER_BYTES, loop=loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


class _Ssh(NamedTuple):
    """One ssh that runs, or ran."""

    process: Process
    transport: asyncio.SubprocessTransport
    ended: asyncio.Event


async def _started(command: Sequence[str]) -> _Ssh:
    loop = asyncio.get_running_loop()
    try:
        transport, streams = await loop.subprocess_exec(
            lambda: _Streams(loop), *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        return _Ssh(Process(transport, streams, loop), transport, streams.ended)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidSettings(
            f"{command[0]} cannot be run: {why}", advice="install an ssh client, or name one with --ssh-command"
        ) from error


async def _feed(stdin: asyncio.StreamWriter, program: bytes | None) -> None:
    """Send the program, and leave standard input open: its end tells the other side to stop."""
    with suppress(ConnectionError):
        if program is not None:
            stdin.write(program)
            await stdin.drain()


async def _read_all(stream: asyncio.StreamReader, into: bytearray) -> None:
    while part := await stream.read(65_536):
        into += part
        if len(into) > MOST_BODY_BYTES:
            raise NoAnswer(Reason.REFUSED, f"the answer is larger than {MOST_BODY_BYTES} bytes")


async def _read_end(stream: asyncio.StreamReader, into: bytearray) -> None:
    while part := await stream.read(4096):
        into += part
        del into[:-_MOST_SAID]


async def _end(ssh: _Ssh) -> None:
    """Kill what is left of the group, reap it unless it is blocked in the kernel, and close our ends of its pipes."""
    if ssh.process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(ssh.process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(_BURIAL_SECONDS):
            await ssh.ended.wait()
    except TimeoutError:
        pass  # asyncio's watcher reaps it, should it ever end
    finally:
        ssh.transport.close()


def _read_looks(out: bytes, most: int) -> tuple[tuple[NodeSnapshot, ...], NoAnswer | None]:
    """Read JSON lines; what a login shell prints around them is passed over, a line cut off is no look."""
    looks: list[NodeSnapshot] = []
    for line in _objects(out):
        if len(looks) == most:
            return (), NoAnswer(Reason.UNREADABLE, f"more than {most} looks arrived")
        try:
            look = read_answer(line, NodeSnapshot)
        except NoAnswer as error:
            return tuple(looks), error
        if look.host is None:  # every field may be absent, so that any JSON would do
            return tuple(looks), NoAnswer(Reason.UNREADABLE, f"what answered is not unhang: {quoted(line)}")
        looks.append(look)
    if out and not looks and not out.startswith(b"{") and b"\n{" not in out:
        return (), NoAnswer(Reason.UNREADABLE, f"what answered is not unhang: {quoted(out)}")
    return tuple(looks), None


def _objects(out: bytes) -> Iterator[bytes]:
    """Yield each whole line that begins with a brace; there may be millions of others."""
    start = 0 if out.startswith(b"{") else out.find(b"\n{") + 1
    while out[start : start + 1] == b"{" and (end := out.find(b"\n", start)) >= 0:
        yield out[start:end]
        start = out.find(b"\n{", end) + 1 or len(out)
