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
from typing import Literal

from agent.agent import Agent, RankFilter
from agent.look.look_audit import note_look
from agent.sources.source import LookDepth, StackMode
from cli.sources.agent_here import beating, in_thread, local_settings
from cli.sources.bundle import made, write_whole
from cli.sources.helpers import run_with_helpers
from cli.terminal import emit, note
from collector.align.expected import Expected
from collector.looks.next_looks import MOST_DEEP_LOOKS, pids_to_look_deeper
from shared.errors import NotFound, quoted
from shared.value import as_json
from shared.wire.snapshot import NodeSnapshot

_LOOK_SECONDS = 30.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


StackChoice = Literal["suspects", "plain", "native", "none"]


@dataclass(frozen=True)
class Looks:
    """What to look at, and how often."""

    job: str | None
    stacks: StackChoice
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
    run_with_helpers(partial(_take_all, looks, directory, verbose))


async def _take_all(looks: Looks, directory: Path | None, verbose: bool) -> None:
    agent = Agent(local_settings())
    async with beating(agent):
        await _take(agent, looks, directory, verbose)


async def _take(agent: Agent, looks: Looks, directory: Path | None, verbose: bool) -> None:
    stacks: StackMode = "plain" if looks.stacks == "suspects" else looks.stacks
    taken: list[NodeSnapshot] = []
    for number in range(looks.count):
        if number:
            await asyncio.sleep(looks.interval_seconds)
        seen = await _look(agent, looks, stacks)
        if not (number or looks.allow_empty or seen.ranks or seen.exited):
            raise _nobody(looks.job, seen)
        if verbose:
            note(f"look {number + 1} of {looks.count}: {len(seen.ranks)} ranks, {seen.took_seconds:.2f} s")
        taken.append(seen)
        _keep(seen, directory)
    suspects = _suspects(looks.job, taken) if looks.stacks == "suspects" else ()
    if suspects:
        seen = await _look(agent, replace(looks, pids=suspects, ras=False), "native")
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


async def _look(agent: Agent, looks: Looks, stacks: StackMode) -> NodeSnapshot:
    """Look once, as an agent does that is asked over HTTP, and read its answer: nothing else is known of it later."""
    choice, depth = RankFilter(looks.job, looks.pids), LookDepth(stacks)
    seen = await in_thread(partial(agent.snapshot, choice, depth, _LOOK_SECONDS, ras=looks.ras))
    note_look(agent.audit, seen, {"client": "local"}, action="snapshot", stacks=stacks, ras=looks.ras)
    return NodeSnapshot.model_validate_json(as_json(seen))


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
