"""A node's side: says what it is, and does what the coordinator asks. Nothing is run that the coordinator sends.

What can be asked is fixed: listen, connect, run this node's part of a trial, end it, look at its ranks, and say who
answered for addresses.
"""

import asyncio
import json
import socket
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from itertools import cycle
from typing import Any

from pydantic import Field, ValidationError

from cli.preflight.channel import MOST_LINE_BYTES, Channel, Message, introduce
from cli.preflight.neighbours import NeighbourWatch, own_macs
from cli.preflight.node_facts import MOST_GREETED, job_addresses, read_facts
from cli.preflight.place import NodePlace
from cli.preflight.reach import Listeners, Target, reach_all
from cli.preflight.runner_process import Figures, RunnerProcess
from shared.errors import InvalidSettings, NotPermitted, UnhangError, Unreachable
from shared.value import Value

CONNECT_SECONDS = 2.0
_AGAIN_SECONDS = 0.2
_MOST_TASKS = 64
_LOOK_SECONDS = 12.0
_LARGEST_LOOK = 2 * 1024 * 1024
_MOST_SECONDS = 3600.0
_MOST_PLACES = 256
_OWN = "127.0.0.1"
_ADVICE_GONE = "see whether its machine is up and reachable, and start the preflight again on all nodes"


class TrialOrder(Value):
    """This node's part of a trial."""

    start: str = Field(max_length=100)
    job: str = Field(max_length=100)
    kind: str = Field(pattern="^(collective|device)$")
    ranks: tuple[int, ...] = Field(max_length=64)
    gpus: tuple[int, ...] = Field(default=(), max_length=64)
    world: int = Field(ge=1)
    backend: str = Field(pattern="^[a-z_]{1,20}$")
    lead: bool = False
    store: tuple[str, int] = ("localhost", 0)
    variables: Mapping[str, str] = {}
    bytes: int = Field(default=0, ge=0, le=1 << 32)
    seconds: float = Field(gt=0, le=_MOST_SECONDS)


SWITCHES = frozenset(
    "GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_HCA NCCL_IB_DISABLE".split()
)
"""The only variables that a trial may set, beside those of its ranks."""


class MemberNode:
    """One node, from its first word to its last."""

    def __init__(
        self, channel: Channel, place: NodePlace, *, python: str, neighbours: NeighbourWatch | None = None
    ) -> None:
        self._channel = channel
        self._place = place
        self._runner = RunnerProcess(python)
        self._listeners = Listeners()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._neighbours = neighbours or NeighbourWatch()

    async def serve(self) -> None:
        """Say what this node is, and do what is asked until the coordinator is done. Raises Unreachable before that."""
        try:
            self._neighbours.begin()
            own = {"host": socket.gethostname(), "addresses": job_addresses(), "macs": own_macs()[:MOST_GREETED]}
            await self._send({"here": self._place.node, **own, "time_ns": time.time_ns()})
            hello = await self._hello()
            await self._send({"report_bytes": len(json.dumps(hello))})
            await self._send(hello)
            while (message := await self._order()).get("do") != "end_all":
                if len(self._tasks) < _MOST_TASKS:
                    self._keep(self._answer(message))
        finally:
            for task in list(self._tasks):
                task.cancel()
            self._neighbours.close()
            await self._listeners.close()
            await self._runner.close()
            await self._channel.close()

    async def _order(self) -> Message:
        try:
            return await self._channel.receive_beat()
        except Unreachable as error:
            where = f" on {self._place.host}:{self._place.port}" if self._place.host else ""
            raise Unreachable(f"the coordinator{where} is gone: {error}", advice=_ADVICE_GONE) from error

    async def _hello(self) -> Message:
        failed = ""
        try:
            versions = await self._runner.start()
        except InvalidSettings as error:
            versions, failed = {}, str(error)
        facts = await asyncio.to_thread(read_facts, versions)
        return {
            "node": self._place.node,
            "nodes": self._place.nodes,
            "address": self._channel.own_address,
            "failed": failed,
            "gpus": versions.get("gpus", 0),
            "facts": facts.model_dump(mode="json"),
        }

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, message: Message) -> None:
        async with self._sending:
            await self._channel.send(message)

    async def _answer(self, message: Message) -> None:
        number = message.get("id")
        try:
            answer = await self._do(message)
        except (UnhangError, ValidationError, OSError, TypeError, ValueError) as error:
            answer = {"error": str(error)[:500]}
        with suppress(UnhangError):
            await self._send({"id": number, **answer})

    async def _do(self, message: Message) -> Message:
        match message.get("do"):
            case "listen":
                return {
                    "ports": [await self._listeners.open(str(a), int(p)) for a, p in message["places"][:_MOST_PLACES]]
                }
            case "unlisten":
                await self._listeners.close()
                return {}
            case "connect":
                found = await reach_all(Target.model_validate(each) for each in message["targets"][:64])
                return {"found": {path: each.model_dump(mode="json") for path, each in found.items()}}
            case "neighbours":
                return {"seen": self._neighbours.of({str(each) for each in message["addresses"]})}
            case "trial":
                return await self._try(message)
            case "ping":
                return {}
            case "end":
                self._runner.end(str(message["trial"]))
                return {}
            case "look":
                job = str(message["job"])
                return {"looks": await asyncio.to_thread(lambda: asyncio.run(_look(job)))}
        raise InvalidSettings("this version of unhang does not know what it was asked to do")

    async def _try(self, message: Message) -> Figures:
        order = TrialOrder.model_validate(message["order"])
        if not order.variables.keys() <= SWITCHES:
            raise InvalidSettings("a trial wants to set other variables than those of a trial")
        fields = order.model_dump(mode="json")
        await self._runner.ready()
        port, done = self._runner.begin(fields)
        if order.lead:
            self._keep(self._say_port(message.get("id"), port))
        return await self._runner.outcome(fields, done)

    async def _say_port(self, number: object, port: asyncio.Future[int]) -> None:
        with suppress(UnhangError):
            await self._send({"id": number, "port": await port})


async def _look(job: str) -> list[object]:
    """Look at the ranks of a trial here, as `unhang diagnose` does; in a thread, for it keeps a CPU busy for long."""
    from cli.sources.one_box import local_client
    from collector.gather.sweep import gather
    from collector.hostlists import AgentAddress
    from collector.question import NativePolicy, Question

    question = Question(
        job=job, looks=2, interval_seconds=1.0, deadline_seconds=_LOOK_SECONDS, native=NativePolicy.NEVER
    )
    async with local_client() as client:
        found = await gather(question, (AgentAddress(host=socket.gethostname(), url="http://localhost"),), client)
    looks = [look.model_dump_json(by_alias=True) for look in found.snapshots]
    return [json.loads(look) for look in looks] if sum(map(len, looks)) < _LARGEST_LOOK else []


async def join(place: NodePlace, token: bytes, *, python: str, seconds: float) -> None:
    """Take part in a preflight until it ends. Raises Unreachable, NotPermitted."""
    neighbours = NeighbourWatch()  # before anybody connects to this node
    try:
        channel = await _reach(place, token, seconds)
        await MemberNode(channel, place, python=python, neighbours=neighbours).serve()
    finally:
        neighbours.close()


async def _reach(place: NodePlace, token: bytes, seconds: float) -> Channel:
    """Connect to the coordinator, which may start later than we do."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    why = ""
    # On the first node its own name may lead elsewhere, by an /etc/hosts that is out of date.
    for host in cycle((place.host, _OWN) if place.coordinates else (place.host,)):
        if loop.time() >= until:
            break
        try:
            async with asyncio.timeout(max(CONNECT_SECONDS, min(10.0, until - loop.time()))):
                reader, writer = await asyncio.open_connection(host, place.port, limit=MOST_LINE_BYTES)
                try:
                    return await introduce(reader, writer, token)
                except BaseException:
                    writer.close()
                    raise
        except NotPermitted:
            raise
        except (OSError, TimeoutError, Unreachable) as error:
            why = str(error) or "no answer"
        await asyncio.sleep(_AGAIN_SECONDS)
    raise Unreachable(
        f"the coordinator at {place.host}:{place.port} cannot be reached: {why}",
        advice="start all nodes; check the firewall and --coordinator",
    )
