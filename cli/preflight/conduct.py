"""One trial, from the first order to its outcome: its store, its ranks, its deadline, and a look where it hangs."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from cli.preflight.coordinator import NodeLink
from cli.preflight.runner_process import GRACE_SECONDS
from shared.errors import UnhangError, Unreachable
from shared.wire.snapshot import NodeSnapshot

_LAST_WORDS_SECONDS = 1.0
"""After one rank failed, for the others to say why they did."""

_LOOK_AFTER = 0.5
"""Of a trial's time: whoever is not done then is looked at."""

_TELLS_LITTLE = ("no answer", "ended by signal 9")
"""Ranks that we have ended, for others had failed."""

_LOOK_SECONDS = 20.0
_MOST_LOOKED_AT = 8
_LONGEST_ERROR = 520
"""As the trial runner cuts it."""

MOST_LOOKS = 6
"""Trials of one preflight that are looked at: they hang alike."""


@dataclass(frozen=True)
class TrialPlan:
    """A trial to make. `interface` empty: what the environment and the backend choose."""

    members: tuple[int, ...]
    backend: str
    seconds: float
    kind: str = "collective"
    bytes: int = 0
    interface: str = ""
    gpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The GPUs to use, by node; of a node that is not named, the first rank takes none."""
    variables: Mapping[str, str] = field(default_factory=dict)
    look: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of a trial."""

    plan: TrialPlan
    passed: bool
    said: Mapping[int, str] = field(default_factory=dict)
    """By node: what it said, where it failed."""
    bytes_per_second: float | None = None
    multiply_seconds: Mapping[int, float] = field(default_factory=dict)
    held_back: Mapping[int, str] = field(default_factory=dict)
    """By node: what its control group lets it use, where that held it back."""
    diagnosis: str = ""
    cpu_wait: float = 0.0
    """Which share of the time that was measured, or of all until the timeout, its ranks waited for a CPU."""

    @property
    def why(self) -> str:
        """The first thing that was said, most telling first."""

        def little(text: str) -> bool:
            return not text or any(each in text for each in _TELLS_LITTLE)

        return min(self.said.values(), key=lambda text: (little(text), text), default="")


class Conductor:
    """Makes trials on nodes. `hosts` are their links by node."""

    def __init__(self, hosts: Mapping[int, NodeLink]) -> None:
        self._links = hosts
        self._looks_left = MOST_LOOKS

    async def conduct(self, plan: TrialPlan) -> Outcome:
        """Make one trial."""
        name = f"preflight-{secrets.token_hex(4)}"
        orders = self._orders(plan, name)
        lead, *others = plan.members
        loop = asyncio.get_running_loop()
        until = loop.time() + plan.seconds
        answers: dict[int, asyncio.Task[dict[str, Any]]] = {}
        answers[lead], port = self._begin(lead, orders[lead], plan.seconds)
        if others:
            either: set[asyncio.Future[Any]] = {answers[lead], port}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if port.done() and not port.cancelled():
            address, left = orders[lead]["store"][0], max(1.0, until - loop.time())
            for node in others:
                order = {**orders[node], "store": [address, port.result()], "seconds": left}
                answers[node], _ = self._begin(node, order, left)
        diagnosis = await self._wait(plan, name, answers)
        return self._outcome(plan, answers, self._with_hosts(plan, diagnosis))

    def _with_hosts(self, plan: TrialPlan, diagnosis: str) -> str:
        """Say which nodes the ranks of a small trial are on."""
        if not diagnosis or len(plan.members) > _MOST_LOOKED_AT:
            return diagnosis
        hosts = ", ".join(self._links[node].host for node in plan.members)
        return f"{diagnosis} (its ranks, in their order, are on {hosts})"

    def _begin(
        self, node: int, order: dict[str, Any], seconds: float
    ) -> tuple[asyncio.Task[dict[str, Any]], asyncio.Future[int]]:
        return self._links[node].begin("trial", {"order": order}, seconds + 2 * GRACE_SECONDS)

    def _orders(self, plan: TrialPlan, name: str) -> dict[int, dict[str, Any]]:
        per_node = {node: len(plan.gpus.get(node, ())) or 1 for node in plan.members}
        world, first, orders = sum(per_node.values()), 0, {}
        variables = dict(plan.variables)
        if plan.interface:
            variables |= {"GLOO_SOCKET_IFNAME": plan.interface, "NCCL_SOCKET_IFNAME": plan.interface}
        for node in plan.members:
            link = self._links[node]
            address = link.hello.facts.address_of(plan.interface) if plan.interface else link.address
            alone = plan.kind == "device"
            orders[node] = {
                "start": name,
                "job": name,
                "kind": plan.kind,
                "ranks": list(range(per_node[node])) if alone else list(range(first, first + per_node[node])),
                "gpus": list(plan.gpus.get(node, ())),
                "world": per_node[node] if alone else world,
                "backend": plan.backend,
                "lead": node == plan.members[0],
                "store": [address or link.hello.facts.host, 0],
                "variables": variables,
                "bytes": plan.bytes,
                "seconds": plan.seconds,
            }
            first += per_node[node]
        return orders

    async def _wait(self, plan: TrialPlan, name: str, answers: Mapping[int, asyncio.Task[dict[str, Any]]]) -> str:
        """Wait until all have answered; return what unhang says of a trial that hangs."""
        waiting = set(answers.values())
        loop = asyncio.get_running_loop()
        look_at = loop.time() + plan.seconds * _LOOK_AFTER
        diagnosis = ""
        while waiting:
            limit = max(0.0, look_at - loop.time()) if plan.look and not diagnosis else None
            done, waiting = await asyncio.wait(waiting, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is not None or not _passed(task.result()) for task in done):
                if waiting:
                    await asyncio.wait(waiting, timeout=_LAST_WORDS_SECONDS)
                    await asyncio.gather(*(self._end(node, name) for node, task in answers.items() if not task.done()))
                    await asyncio.wait(waiting)
                break
            if waiting and not done:
                diagnosis = await self._look(plan, name) or " "
        return diagnosis.strip()

    async def _end(self, node: int, name: str) -> None:
        with suppress(UnhangError):
            await self._links[node].ask("end", {"trial": name}, _LAST_WORDS_SECONDS)

    async def _look(self, plan: TrialPlan, name: str) -> str:
        """Have nodes look at the ranks of a trial that hangs, and judge what they see."""
        if self._looks_left <= 0 or plan.kind != "collective":
            return ""
        self._looks_left -= 1
        asked = plan.members[:_MOST_LOOKED_AT]
        limit = min(_LOOK_SECONDS, plan.seconds * (1 - _LOOK_AFTER))
        found = await asyncio.gather(*(self._look_at(node, name, limit) for node in asked))
        snapshots = [snapshot for each in found for snapshot in each]
        return await asyncio.to_thread(_judge, snapshots, name) if snapshots else ""

    async def _look_at(self, node: int, name: str, seconds: float) -> list[NodeSnapshot]:
        try:
            answer = await self._links[node].ask("look", {"job": name}, seconds)
            return [NodeSnapshot.model_validate(each) for each in list(answer.get("looks", ()))[:4]]
        except (UnhangError, ValidationError, TypeError):
            return []

    def _outcome(self, plan: TrialPlan, answers: Mapping[int, asyncio.Task[dict[str, Any]]], diagnosis: str) -> Outcome:
        said, speeds, products, held, waits = {}, [], {}, {}, [0.0]
        for node in plan.members:
            if node not in answers:
                continue
            try:
                answer = answers[node].result()
            except Unreachable as error:
                said[node] = str(error)
                continue
            ranks = _ranks_of(answer)
            speeds += [_number(rank.get("bytes_per_second")) for rank in ranks]
            waits.append(max([_number(answer.get("cpu_wait")), *(_number(rank.get("cpu_wait")) for rank in ranks)]))
            times = [_number(rank.get("multiply_seconds")) for rank in ranks]
            if any(times):
                products[node] = max(times)
            if limit := next((str(rank["held_back"])[:100] for rank in ranks if rank.get("held_back")), ""):
                held[node] = limit
            if not _passed(answer):
                said[node] = _in_words(answer, ranks)
        measured = [speed for speed in speeds if speed > 0]
        return Outcome(
            plan,
            passed=not said and len(answers) == len(plan.members),
            said=said,
            bytes_per_second=min(measured, default=None),
            multiply_seconds=products,
            held_back=held,
            diagnosis=diagnosis,
            cpu_wait=min(1.0, sum(waits) if len(plan.members) == 2 else max(waits)),
        )


def _ranks_of(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    done = answer.get("done")
    ranks: list[Mapping[str, Any]] = [rank for rank in done if isinstance(rank, dict)] if isinstance(done, list) else []
    return ranks[:64]


def _passed(answer: Mapping[str, Any]) -> bool:
    ranks = _ranks_of(answer)
    return bool(ranks) and all(rank.get("passed") is True for rank in ranks)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e18 else 0.0


_PHASES = {
    "store": "while it connected to the trial's store",
    "group": "while it connected to the other ranks",
    "first_all_reduce": "in the first all_reduce",
    "bandwidth": "while bandwidth was measured",
    "allocate": "while it allocated memory",
    "multiply": "while it multiplied matrices",
    "copy": "while it copied to the device and back",
}


def _in_words(answer: Mapping[str, Any], ranks: Sequence[Mapping[str, Any]]) -> str:
    failed = next((rank for rank in ranks if rank.get("passed") is not True), {})
    where = _PHASES.get(str(failed.get("phase")), "before it started")
    error = str(failed.get("error", "")).strip()[:_LONGEST_ERROR]
    if answer.get("timed_out") is True:
        return f"timed out {where}{f': {error}' if error else ''}" if ranks else str(answer.get("said", ""))[:300]
    said = [line for line in str(answer.get("said", "")).splitlines() if "WARN" in line or "rror" in line]
    return f"failed {where}: {error or (said[-1][:300] if said else 'it ended without a word')}"


def _judge(snapshots: Sequence[NodeSnapshot], job: str) -> str:
    from collector.align.expected import Expected
    from collector.gather.judge_and_stamp import judge

    return judge(tuple(snapshots), Expected(job=job)).headline
