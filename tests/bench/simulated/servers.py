"""`python -m tests.bench.simulated.servers`: agents of some nodes of a simulated job, each on an address of its own.

The first line of standard input is a `Task` in JSON. When all answers are made ready, "ready" is written. Then each
line is a command: `begin` starts a diagnosis (looks and counts begin anew), `report` asks for a `Report`; the end of
the input ends the process. All is as cheap as it can be, because whoever is measured shares the processors: a real
agent's cost is its node's, only the time that it takes is imitated.
"""

import asyncio
import gc
import json
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from urllib.parse import parse_qs

import trustme
from pydantic import BaseModel, Field

from shared.value import Value
from shared.wire.survey_write import survey_of
from tests.bench.simulated.answers import Body, Stamps, plain
from tests.bench.simulated.job import SimulatedJob
from tests.bench.simulated.nodes import SimulatedNode

LOOK_SECONDS = 0.2
"""What a real agent takes for a look at eight ranks (docs/benchmarks.md)."""
NATIVE_SECONDS = 1.0
SLOW_SECONDS = 3.0
"""What a slow one takes more for every answer."""
_BACKLOG = 16


class Authority(Value):
    """Who signs the certificates of all agents, as PEM."""

    certificate: str
    key: str


class Task(Value):
    """Which agents of which job to be."""

    nodes: int
    numbers: tuple[int, ...] = Field(default=(), description="The nodes whose agents to be.")
    port: int
    stopped_ns: int
    moving: bool = False
    mute: tuple[int, ...] = Field(default=(), description="Those that take a connection and say nothing.")
    unreachable: tuple[int, ...] = Field(default=(), description="Those whose host drops what is sent to it.")
    slow: tuple[int, ...] = ()
    authority: Authority | None = Field(default=None, description="Serve HTTPS, each with a certificate of its own.")


@dataclass
class Report:
    """What the agents of one process were asked and sent since `begin`."""

    requests: dict[str, int] = field(default_factory=dict)
    received_bytes: int = 0
    sent_bytes: int = 0
    connections: int = 0
    cpu_seconds: float = 0.0

    def clear(self) -> None:
        """Begin to count anew."""
        self.__dict__.update(asdict(Report()))


def address_of(number: int) -> str:
    """The loopback address of an agent."""
    return f"127.{64 + (number >> 14)}.{number >> 7 & 127}.{number % 128 + 1}"


def url_of(task: Task, number: int) -> str:
    """Where an agent can be asked."""
    return f"{'http' if task.authority is None else 'https'}://{address_of(number)}:{task.port}"


class Agent:
    """One agent: its answers, made ready, and how many looks it has given."""

    def __init__(self, task: Task, number: int) -> None:
        self._node = SimulatedNode(SimulatedJob(task.nodes, task.moving), number, stopped_ns=task.stopped_ns)
        self._stopped_ns = task.stopped_ns
        self._looks = 0
        self._list = self._made(self._node.rank_list())
        seen = [self._node.snapshot(look) for look in range(2 if task.moving else 1)]
        self._snapshots = [self._made(snapshot) for snapshot in seen]
        self._surveys = [self._made(survey_of(snapshot)) for snapshot in seen]
        self.mute = number in task.mute
        self.delay = SLOW_SECONDS if number in task.slow else 0.0

    def begin(self) -> None:
        """Begin with the first look anew."""
        self._looks = 0

    def answer(self, path: str, query: str) -> tuple[Body, float] | None:
        """What is answered, and after how many seconds; None where there is no such route."""
        if path == "/v1/ranks":
            return self._list, self.delay
        asked = parse_qs(query)
        if path == "/v1/snapshot" and "pid" in asked:
            return self._of_some(frozenset(map(int, asked["pid"])), native=asked.get("stacks") == ["native"])
        looks = {"/v1/snapshot": self._snapshots, "/v1/survey": self._surveys}.get(path)
        if looks is None:
            return None
        self._looks += 1
        return looks[self._latest], self.delay + LOOK_SECONDS

    def _of_some(self, pids: frozenset[int], *, native: bool) -> tuple[Body, float]:
        """Look at a few processes again; this is asked of few agents, so nothing is made ready for it."""
        seconds = NATIVE_SECONDS if native else LOOK_SECONDS
        return self._made(self._node.snapshot_of(pids, self._latest, native=native)), self.delay + seconds

    @property
    def _latest(self) -> int:
        """Which look was the last one at all ranks: a job that moves has moved between the first and the others."""
        return max(0, min(self._looks, len(self._snapshots)) - 1)

    def stamps(self) -> Stamps:
        """The time for an answer that is sent now."""
        return Stamps.at(time.time_ns(), self._stopped_ns)

    def _made(self, value: BaseModel) -> Body:
        return Body(value.model_dump_json().encode())


class Connection(asyncio.Protocol):
    """One connection to an agent: HTTP/1.1, requests one after the other, kept alive."""

    def __init__(self, agent: Agent, report: Report) -> None:
        self._agent = agent
        self._report = report
        self._unread = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._report.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._report.received_bytes += len(data)
        self._unread += data
        if self._agent.mute:
            return
        while b"\r\n\r\n" in self._unread:
            head, _, self._unread = self._unread.partition(b"\r\n\r\n")
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        path, _, query = head.split(b" ", 2)[1].decode().partition("?")
        self._report.requests[path] = self._report.requests.get(path, 0) + 1
        answer = self._agent.answer(path, query)
        if answer is None:
            self._write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        body, seconds = answer
        unzip = b"gzip" not in head.lower()
        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, self._send, body, unzip)
        else:
            self._send(body, unzip)

    def _send(self, body: Body, unzip: bool) -> None:
        content = body.at(self._agent.stamps())
        encoding = b"" if unzip else b"Content-Encoding: gzip\r\n"
        if unzip:
            content = plain(content)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
        self._write(head % (encoding, len(content)) + content)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._report.sent_bytes += len(data)
            self._transport.write(data)


class Servers:
    """The agents of one process."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._agents = {number: Agent(task, number) for number in task.numbers if number not in task.unreachable}
        self._report = Report()
        self._began = time.process_time()
        self._contexts = dict(_contexts(task))
        self._silenced = [_silenced(address_of(n), task.port) for n in task.unreachable if n in task.numbers]

    async def serve(self) -> None:
        """Listen, say so, and obey until the input ends."""
        loop = asyncio.get_running_loop()
        for number, agent in self._agents.items():
            make = _maker(agent, self._report)
            context = self._contexts.get(number)
            await loop.create_server(make, address_of(number), self._task.port, backlog=_BACKLOG, ssl=context)
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        ended = loop.create_future()
        loop.add_reader(sys.stdin.fileno(), self._obey, ended)
        await ended

    def _obey(self, ended: "asyncio.Future[None]") -> None:
        command = sys.stdin.readline().strip()
        if command == "begin":
            self._report.clear()
            self._began = time.process_time()
            for agent in self._agents.values():
                agent.begin()
            print("begun", flush=True)
        elif command == "report":
            self._report.cpu_seconds = time.process_time() - self._began
            print(json.dumps(asdict(self._report)), flush=True)
        elif not ended.done():
            ended.set_result(None)


def _maker(agent: Agent, report: Report) -> Callable[[], Connection]:
    return lambda: Connection(agent, report)


def _contexts(task: Task) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Give each agent's own, where they serve HTTPS: with a certificate for its address, by a key on P-256."""
    if task.authority is not None:
        authority = trustme.CA.from_pem(task.authority.certificate.encode(), task.authority.key.encode())
        for number in task.numbers:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(address_of(number)).configure_cert(context)
            yield number, context


def _silenced(address: str, port: int) -> tuple[socket.socket, ...]:
    """A listener whose queue is full: the kernel drops what further connections begin with."""
    listener = socket.create_server((address, port), backlog=0)
    waiting = []
    for _ in range(3):
        client = socket.socket()
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect((address, port))
        waiting.append(client)
    return listener, *waiting


def main() -> None:
    """Be the agents that the task names."""
    task = Task.model_validate_json(sys.stdin.readline())
    with suppress(KeyboardInterrupt):
        asyncio.run(Servers(task).serve())


if __name__ == "__main__":
    main()
