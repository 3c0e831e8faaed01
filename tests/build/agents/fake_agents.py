"""Agents that are not there: ASGI applications that answer real snapshots, and sockets that misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import httpx
from fastapi import FastAPI, Query, Response

from collector.hostlists import AgentAddress
from shared.formats.recorder.dump import parse_dump
from shared.missing import Missing, Reason
from shared.wire.job_names import goes_by
from shared.wire.snapshot import Exited, Identity, NodeSnapshot, Process, RankList, RankSnapshot
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.survey_write import survey_of
from shared.wire.trace import Trace

JOB = "train:29500"
CASES = Path(__file__).parents[2] / "data" / "cases"
WORLD = 4


def trace_of(case: str, rank: int) -> Trace:
    """The record of one rank of a recorded case."""
    return parse_dump((CASES / case / f"_dump_{rank}").read_bytes())


def make_rank(
    rank: int,
    *,
    host: str,
    job: str | None = JOB,
    recorder: Trace | Missing | None = None,
    attempt: int = 0,
    pid: int | None = None,
    user: str | None = None,
) -> RankSnapshot:
    """One rank that sleeps, as an agent would show it."""
    pid = 1000 + rank if pid is None else pid
    nothing = Missing(source="fake", reason=Reason.NOT_ENABLED, detail="a test")
    identity = Identity(
        job=job,
        user=user,
        rank=rank,
        local_rank=rank,
        world_size=WORLD,
        attempt=attempt,
        host=host,
        pid=pid,
        started_at=1.0,
    )
    stacks = Stacks(
        pid=pid,
        frames=(Frame("main", "/srv/train.py", 10), Frame("wait_for_data", "/srv/train.py", 20 + rank)),
        threads=(Thread(tid=pid, name="MainThread", frames=(0, 1)),),
    )
    return RankSnapshot(
        identity=identity,
        process=Process(pid=pid, state="S", started_at=1.0),
        stacks=stacks,
        fds=nothing,
        logs=nothing,
        recorder=nothing if recorder is None else recorder,
    )


def case_ranks(case: str, ranks: Iterable[int], *, host: str) -> tuple[RankSnapshot, ...]:
    """Ranks with the records of a recorded case."""
    return tuple(make_rank(rank, host=host, recorder=trace_of(case, rank)) for rank in ranks)


class FakeAgent:
    """An agent of one node; counts what it was asked."""

    def __init__(
        self,
        host: str,
        ranks: Sequence[RankSnapshot],
        *,
        exited: tuple[Exited, ...] = (),
        missing: tuple[Missing, ...] = (),
        delay_seconds: float = 0.0,
        surveys: bool = True,
    ) -> None:
        """`surveys`: without, it is of a version that knows none."""
        self.host = host
        self.ranks = tuple(ranks)
        self.exited = exited
        self.missing = missing
        self.delay_seconds = delay_seconds
        self.asked: list[dict[str, object]] = []
        self.before_snapshot: Callable[[int], Awaitable[None]] | None = None
        self.app = FastAPI()
        self.app.get("/v1/ranks")(self._list)
        self.app.get("/v1/snapshot")(self._look)
        if surveys:
            self.app.get("/v1/survey")(self._survey)

    @property
    def address(self) -> AgentAddress:
        """Where it is asked."""
        return AgentAddress(host=self.host, url=f"http://{self.host}:8471")

    @property
    def mount(self) -> tuple[str, httpx.AsyncBaseTransport]:
        """For the client that asks it."""
        return self.address.url, httpx.ASGITransport(self.app)

    @property
    def looks(self) -> int:
        """How many snapshots it was asked for."""
        return len(self.asked)

    async def _list(self) -> Response:
        identities = tuple(rank.identity for rank in self.ranks)
        return _json(RankList(host=self.host, ranks=identities, exited=self.exited, missing=self.missing))

    async def _look(
        self,
        pid: Annotated[list[int] | None, Query()] = None,
        job: str | None = None,
        stacks: str = "plain",
        window: int = 64,
        ras: bool = False,
        seconds: Annotated[float, Query(alias="timeout", ge=0.5)] = 10.0,
    ) -> Response:
        self.asked.append({"job": job, "pid": pid, "stacks": stacks, "window": window, "timeout": seconds, "ras": ras})
        if self.before_snapshot is not None:
            await self.before_snapshot(self.looks)
        await asyncio.sleep(self.delay_seconds)
        return _json(self._seen(job, pid))

    async def _survey(
        self,
        job: str | None = None,
        ras: bool = False,
        seconds: Annotated[float, Query(alias="timeout", ge=0.5)] = 10.0,
    ) -> Response:
        self.asked.append({"job": job, "survey": True, "timeout": seconds, "ras": ras})
        if self.before_snapshot is not None:
            await self.before_snapshot(self.looks)
        await asyncio.sleep(self.delay_seconds)
        others = [rank.identity for rank in self.ranks if job is None or not goes_by(rank.identity, job)]
        return _json(survey_of(self._seen(job, None), others))

    def _seen(self, job: str | None, pids: Sequence[int] | None) -> NodeSnapshot:
        ranks = tuple(
            rank
            for rank in self.ranks
            if (job is None or goes_by(rank.identity, job)) and (pids is None or rank.identity.pid in pids)
        )
        return NodeSnapshot(
            host=self.host,
            taken_at_ns=1_000_000_000 * self.looks,
            ranks=ranks,
            exited=self.exited,
            missing=self.missing,
            whole=pids is None,
        )


def mounts(*agents: FakeAgent) -> dict[str, httpx.AsyncBaseTransport | None]:
    """Transports of several agents; every other address goes to the network."""
    return dict(agent.mount for agent in agents)


def two_nodes(case: str = "missing_rank2") -> tuple[FakeAgent, FakeAgent]:
    """A recorded case on two nodes of two ranks."""
    return (
        FakeAgent("node1", case_ranks(case, (0, 1), host="node1")),
        FakeAgent("node2", case_ranks(case, (2, 3), host="node2")),
    )


def held(*nodes: FakeAgent) -> asyncio.Event:
    """Let nobody's looks be answered before this is set."""
    go_on = asyncio.Event()

    async def wait(_: int) -> None:
        await go_on.wait()

    for node in nodes:
        node.before_snapshot = wait
    return go_on


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[AgentAddress]:
    """A real socket on loopback whose connections, over TLS if there is a context, `handle` answers, well or badly."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield AgentAddress(host=f"127.0.0.1:{port}", url=f"{'http' if tls is None else 'https'}://127.0.0.1:{port}")
    finally:
        server.close()


def answering(body: bytes, *, status: str = "200 OK", headers: str = "", length: int | None = None) -> Handler:
    """A handler that sends one HTTP response; `length` may lie about the body's."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        claimed = len(body) if length is None else length
        head = f"HTTP/1.1 {status}\r\nContent-Length: {claimed}\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return handle


def _json(value: RankList | NodeSnapshot) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")
