"""How a preflight is started: as one of the nodes of a launcher, or over ssh on all of them."""

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.preflight.channel import MOST_LINE_BYTES, Channel
from cli.preflight.coordinator import Reception
from cli.preflight.member import MemberNode, join
from cli.preflight.place import NodePlace
from cli.preflight.runner_process import end_group
from cli.preflight.session import PreflightPlan, coordinate
from cli.sources.ssh_command import Way
from cli.sources.ssh_failures import explain_ssh
from cli.terminal import note
from collector.hostlists import parse_host_names
from shared.answer.preflight import PreflightReport
from shared.errors import InvalidInput, InvalidSettings, UnhangError, Unreachable
from shared.server.secret_files import read_secret

TOKEN_VARIABLE = "UNHANG_PREFLIGHT_TOKEN"
LEAST_TOKEN_BYTES = 16
_JOIN_SECONDS = 30.0
"""A node waits that much longer for the coordinator than the coordinator for nodes: it may start last."""

_LATE_SECONDS = 60.0
"""A node gives up that much later than the report is due."""

_BURIAL_SECONDS = 2.0
_MOST_SAID = 4096
_SSH_PATIENCE_SECONDS = 15.0
"""All hosts are visited at the same time: what has said nothing so long after the others does not come."""


@dataclass(frozen=True)
class Launch:
    """What a node needs to know to take part."""

    place: NodePlace
    python: str
    token: bytes


def read_token(environment: Mapping[str, str], path: Path | None, *, alone: bool) -> bytes:
    """Return the token that all nodes share; of a single node, a new one. Raises InvalidSettings."""
    if path is not None:
        token = read_secret(path, "the token file").strip()
    else:
        token = environment.get(TOKEN_VARIABLE, "").encode().strip()
    if not token and alone:
        return secrets.token_bytes(32)
    if len(token) < LEAST_TOKEN_BYTES:
        raise InvalidSettings(
            f"the nodes need a token of at least {LEAST_TOKEN_BYTES} characters that they share",
            advice=f"before the launcher: export {TOKEN_VARIABLE}=$(openssl rand -hex 32); or pass --token-file",
        )
    return token


def known_names(environment: Mapping[str, str], nodes: int) -> tuple[str, ...]:
    """Return the nodes' names, where Slurm says them: its commands take these, and absent nodes can be named."""
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or ""
    try:
        found = tuple(parse_host_names(hosts)) if hosts else ()
        return found if len(found) == nodes else ()
    except InvalidInput:
        return ()


def take_part(launch: Launch, wanted: PreflightPlan) -> PreflightReport | None:
    """Take part; on the first node, coordinate, and return the report."""
    if launch.place.coordinates:
        return asyncio.run(_coordinate(launch, wanted))
    asyncio.run(_join(launch, wanted))
    return None


async def _join(launch: Launch, wanted: PreflightPlan) -> None:
    """Take part, and no longer than it may take: the coordinator's machine may be gone without a word."""
    seconds = wanted.limits.start_seconds + _JOIN_SECONDS
    most = seconds + wanted.limits.deadline_seconds + _LATE_SECONDS
    try:
        async with asyncio.timeout(most):
            await join(launch.place, launch.token, python=launch.python, seconds=seconds)
    except TimeoutError as error:
        raise Unreachable(f"the coordinator had not ended after {most:.0f} s") from error


async def _coordinate(launch: Launch, wanted: PreflightPlan) -> PreflightReport:
    place = launch.place
    async with Reception(place.nodes, launch.token) as reception:
        port = await reception.listen("127.0.0.1" if place.nodes == 1 else None, place.port)
        own = NodePlace(0, place.nodes, "127.0.0.1" if place.nodes == 1 else place.host, port)
        seconds = wanted.limits.start_seconds
        member = asyncio.create_task(join(own, launch.token, python=launch.python, seconds=seconds))
        try:
            return await coordinate(reception, known_names(os.environ, place.nodes), wanted, note)
        finally:
            await reception.close()
            await _let_end(member)


async def _let_end(task: "asyncio.Task[None]") -> None:
    """Give the member of this node time to end what it has started."""
    done, _ = await asyncio.wait([task], timeout=_BURIAL_SECONDS)
    if not done:
        task.cancel()
    with suppress(UnhangError, asyncio.CancelledError):
        await task


def serve_over_stdio(place: NodePlace, python: str) -> None:
    """Take part as one of the nodes that somebody coordinates over ssh: messages come and go on our own streams."""
    asyncio.run(_serve_over_stdio(place, python))


async def _serve_over_stdio(place: NodePlace, python: str) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    with suppress(Unreachable):
        await MemberNode(Channel(reader, writer, leads=False), place, python=python).serve()


def over_ssh(hosts: Sequence[str], way: Way, remote: Sequence[str], wanted: PreflightPlan) -> PreflightReport:
    """Start a node on each host over ssh, coordinate from here, and return the report."""
    return asyncio.run(_over_ssh(hosts, way, remote, wanted))


async def _over_ssh(hosts: Sequence[str], way: Way, remote: Sequence[str], wanted: PreflightPlan) -> PreflightReport:
    async with Reception(len(hosts), b"") as reception:
        visits = [
            asyncio.create_task(
                _visit(reception, way, at, host, [*remote, "--node", str(at), "--nodes", str(len(hosts))])
            )
            for at, host in enumerate(hosts)
        ]
        try:
            return await coordinate(reception, hosts, wanted, note, patience=_SSH_PATIENCE_SECONDS)
        finally:
            await reception.close()
            for visit in visits:
                visit.cancel()
            await asyncio.gather(*visits, return_exceptions=True)


async def _visit(reception: Reception, way: Way, at: int, host: str, arguments: Sequence[str]) -> None:
    """Hold one ssh open for as long as the preflight takes."""
    command = way.command_for(host, arguments)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=MOST_LINE_BYTES,
        )
    except OSError as error:
        reception.refuse(InvalidSettings(f"{command[0]} cannot be run: {error.strerror}"))
        return
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        if way.program is not None:
            process.stdin.write(way.program)
        channel = Channel(process.stdout, process.stdin, leads=True)
        admission = asyncio.create_task(reception.admit(channel, ends_are_told=True))
        said = bytearray()
        while part := await process.stderr.read(_MOST_SAID):
            said += part
            del said[:-_MOST_SAID]
        if await process.wait() and at not in reception.links:
            reception.gone[at] = f"ssh: {explain_ssh(process.returncode or 0, bytes(said))}"
        await admission
    finally:
        await end_group(process)
