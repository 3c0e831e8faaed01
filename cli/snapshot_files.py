"""Snapshots of this machine as files that are there whole or not at all."""

import asyncio
import gzip
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx

from cli.sources.bundle import made, write_whole
from cli.sources.one_box import ask
from cli.terminal import emit, note
from collector.align.expected import Expected
from collector.gather.fanout.fanout import Fanout
from collector.gather.fanout.values import Request, RequestDeadline
from collector.hostlists import AgentAddress
from collector.looks.next_looks import MOST_DEEP_LOOKS, pids_to_look_deeper
from shared.errors import NotFound, Unreachable, quoted
from shared.wire.snapshot import NodeSnapshot

_LOOK_SECONDS = 30.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Looks:
    """What to look at, and how often."""

    job: str | None
    stacks: str
    """`suspects`: plain ones, and then native ones of those that need it."""
    count: int
    interval_seconds: float
    pids: tuple[int, ...] = ()
    """None named: all."""
    ras: bool = False
    allow_empty: bool = False


def take_snapshots(looks: Looks, directory: Path | None, *, verbose: bool) -> None:
    """Take the looks, and write each to `directory` and its path to stdout; None: the snapshots to stdout.

    Raises NotFound where there is no rank to look at, unless that is allowed.
    """
    if directory is not None:
        made(directory)  # where that fails nobody need be looked at
    ask(partial(_take, looks, directory, verbose))


async def _take(
    looks: Looks, directory: Path | None, verbose: bool, agents: Sequence[AgentAddress], client: httpx.AsyncClient
) -> None:
    plain = replace(looks, stacks="plain") if looks.stacks == "suspects" else looks
    taken: list[NodeSnapshot] = []
    for number in range(looks.count):
        if number:
            await asyncio.sleep(looks.interval_seconds)
        seen = await _look(plain, agents, client)
        if not (number or looks.allow_empty or seen.ranks or seen.exited):
            raise _nobody(looks.job, seen)
        if verbose:
            note(f"look {number + 1} of {looks.count}: {len(seen.ranks)} ranks, {seen.took_seconds:.2f} s")
        taken.append(seen)
        _keep(seen, directory)
    suspects = _suspects(looks.job, taken) if looks.stacks == "suspects" else ()
    if suspects:
        native = replace(looks, stacks="native", pids=suspects, ras=False)
        seen = await _look(native, agents, client)
        if verbose:
            note(f"native stacks of {len(seen.ranks)} of them, {seen.took_seconds:.2f} s")
        _keep(seen, directory)


def _suspects(job: str | None, taken: Sequence[NodeSnapshot]) -> tuple[int, ...]:
    """Return the processes whose native stacks the verdict would ask for, as far as this node alone can tell."""
    here = {(job or rank.identity.job, rank.identity.user) for seen in taken for rank in seen.ranks}
    if any(name is None for name, _ in here):
        here = {(None, None)}
    wanted = [Expected(job=name, user=user) for name, user in here]
    asked = {pid for each in wanted for _, pid in pids_to_look_deeper(taken, each)}
    return tuple(sorted(asked)[:MOST_DEEP_LOOKS])


async def _look(looks: Looks, agents: Sequence[AgentAddress], client: httpx.AsyncClient) -> NodeSnapshot:
    named = {} if looks.job is None else {"job": looks.job}
    asked = {"stacks": looks.stacks, "ras": "true" if looks.ras else "false", "pid": looks.pids, **named}
    requests = [Request(agent, "/v1/snapshot", asked) for agent in agents]
    answers = await Fanout(client, node_seconds=_LOOK_SECONDS).ask(
        requests, NodeSnapshot, deadline=RequestDeadline.within(_LOOK_SECONDS)
    )
    for silent in answers.silent:
        raise Unreachable(f"this machine cannot be examined: {silent.missing.detail}")
    return answers.answered[0].value


def _keep(seen: NodeSnapshot, directory: Path | None) -> None:
    data = seen.model_dump_json().encode() + b"\n"
    emit(data.decode() if directory is None else f"{_write(directory, seen, data)}\n")


def _write(directory: Path, seen: NodeSnapshot, data: bytes) -> Path:
    """Write `<host>-<time>-<chance>.json.gz`: nodes that share a name and a microsecond do not meet either."""
    at = datetime.fromtimestamp((seen.taken_at_ns or 0) / 1e9, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    host = _UNSAFE.sub("_", seen.host or "").strip("._")[:100] or "node"
    name = f"{host}-{at}-{secrets.token_hex(3)}.json.gz"
    return write_whole(directory / name, lambda to: to.write(gzip.compress(data, 6, mtime=0)))


def _nobody(job: str | None, seen: NodeSnapshot) -> NotFound:
    details = "; ".join(sorted({missing.detail for missing in seen.missing if missing.detail})[:3])
    what = "no ranks" if job is None else f"no ranks of job {quoted(job)}"
    return NotFound(
        f"{what} were found on this machine",
        advice=details
        or "a rank is a process that has called init_process_group, or has RANK or SLURM_PROCID set; see unhang jobs",
    )
