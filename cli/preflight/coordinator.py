"""The coordinator's side of the connections: who takes part, and what each node is asked."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import Field, ValidationError

from cli.preflight.channel import MOST_LINE_BYTES, AnotherToken, Channel, Message, greet
from cli.preflight.node_facts import MOST_GREETED, NodeReport
from shared.errors import InvalidSettings, NotPermitted, UnhangError, Unreachable
from shared.value import Value

_GREETING_SECONDS = 10.0
_HELLO_SECONDS = 240.0
_MOST_STRANGERS = 64
"""Connections at the same time that have not proved yet that they know the token, beside one of each node."""

_END_SECONDS = 2.0
_POLL_SECONDS = 0.05
_LONGEST_NAME = 253

_MOST_SILENCES = 2
"""Answers that did not come in time, one after the other, until a node is given up."""

PATIENCE_SECONDS = 12.0
"""After an answer was due: a node that is busy may still give it."""

_HAS_TIME = frozenset({"listen", "connect", "trial"})
"""What is waited for long enough that silence says something of the node."""


class Arrival(Value):
    """The first message of a node, before it imports PyTorch: so short that any network carries it."""

    here: int = Field(ge=0)
    host: str = Field(default="", max_length=_LONGEST_NAME)
    addresses: Mapping[str, str] = Field(default={}, max_length=MOST_GREETED, description="By interface.")
    macs: tuple[str, ...] = Field(default=(), max_length=MOST_GREETED)
    time_ns: int = 0
    report_bytes: int | None = None
    """Of the report that follows; None: the node is still importing PyTorch."""


class Announced(Value):
    """The second message of a node, when its report follows."""

    report_bytes: int = Field(ge=0)


class Hello(Value):
    """The third message of a node: its report."""

    node: int = Field(ge=0)
    nodes: int
    address: str = ""
    failed: str = ""
    gpus: int = Field(default=0, ge=0, le=64)
    facts: NodeReport


class NodeLink:
    """One node, as the coordinator sees it."""

    def __init__(self, channel: Channel, hello: Hello) -> None:
        self.hello = hello
        self.address = hello.address
        """Where other nodes reach it."""
        self.host = hello.facts.host[:_LONGEST_NAME]
        """What it calls itself, until somebody knows better."""
        self.lost = ""
        """Why it no longer answers; empty while it does."""
        self._channel = channel
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._ports: dict[int, asyncio.Future[int]] = {}
        self._count = self._silences = 0
        self._sending = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    async def ask(self, do: str, fields: Mapping[str, Any], seconds: float) -> Message:
        """Ask it to do something. Raises Unreachable, also where it answers that it cannot."""
        answer, _ = self.begin(do, fields, seconds)
        return await answer

    def begin(
        self, do: str, fields: Mapping[str, Any], seconds: float
    ) -> tuple["asyncio.Task[Message]", asyncio.Future[int]]:
        """Ask, and return the answer to come, and the port that may come before it."""
        self._count += 1
        number = self._count
        loop = asyncio.get_running_loop()
        self._answers[number], self._ports[number] = loop.create_future(), loop.create_future()
        message = {"id": number, "do": do, **fields}
        return asyncio.create_task(self._exchange(number, message, seconds)), self._ports[number]

    async def _exchange(self, number: int, message: Message, seconds: float) -> Message:
        try:
            async with asyncio.timeout(seconds):
                if self.lost:
                    raise Unreachable(self.lost)
                async with self._sending:
                    await self._channel.send(message)
                await asyncio.wait([self._answers[number]])
            answer = self._answers[number].result()
        except TimeoutError as error:
            if message["do"] in _HAS_TIME and (late := await self._late_answer(number)) is not None:
                return late
            if self._silences >= _MOST_SILENCES:
                self.lost = self.lost or "it stopped answering the coordinator"
            raise Unreachable(f"{self.host} did not answer within {seconds:.0f} s") from error
        finally:
            self._answers.pop(number, None)
            port = self._ports.pop(number)
            if not port.done():
                port.cancel()
        self._silences = 0
        if "error" in answer:
            raise Unreachable(str(answer["error"])[:500])
        return answer

    async def _late_answer(self, number: int) -> Message | None:
        """Return an answer that comes a little late, as from a busy node; who answers nothing at all, is counted."""
        self._count += 1
        ping = self._count
        self._answers[ping] = asyncio.get_running_loop().create_future()
        awaited = {self._answers[number], self._answers[ping]}
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async with self._sending:
                    await self._channel.send({"id": ping, "do": "ping"})
                await asyncio.wait(awaited)
        except (TimeoutError, Unreachable):
            pass
        finally:
            del self._answers[ping]
        answered = [future for future in awaited if future.done()]
        self._silences = 0 if answered else self._silences + 1
        answer = self._answers[number]
        return answer.result() if answer.done() and "error" not in answer.result() else None

    async def close(self) -> None:
        """Tell it that all is done, and let go."""
        with suppress(UnhangError, TimeoutError):
            async with asyncio.timeout(_END_SECONDS), self._sending:
                await self._channel.send({"do": "end_all"})
        self._reading.cancel()
        await self._channel.close()

    async def _read(self) -> None:
        try:
            while True:
                answer = await self._channel.receive()
                number = answer.get("id")
                if not isinstance(number, int):
                    continue
                port, waiting = answer.get("port"), self._answers.get(number)
                if isinstance(port, int) and number in self._ports:
                    if not self._ports[number].done():
                        self._ports[number].set_result(port)
                elif waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except UnhangError as error:
            self.lost = f"its connection to the coordinator ended: {error}"
            for future in self._answers.values():
                if not future.done():
                    future.set_result({"error": self.lost})


class Reception:
    """Waits for all nodes. To be used in an `async with`."""

    def __init__(self, nodes: int, token: bytes) -> None:
        self.links: dict[int, NodeLink] = {}
        self.refused: list[str] = []
        """Why others that connected were turned away."""
        self.other_tokens = 0
        """So many nodes were turned away because they have another token."""
        self.nodes = nodes
        self.arrivals: dict[int, Arrival] = {}
        """Nodes that have connected, by what they called themselves; also those whose report never came."""
        self.clocks_ahead: dict[int, tuple[float, float]] = {}
        """By how many seconds each node's clock is ahead of ours at least and at most: messages take time."""
        self._token = token
        self._is_over = False
        self._strangers = 0
        self.gone: dict[int, str] = {}
        """Nodes that will not come, and why not."""
        self._coming = 0
        """Nodes that have said who they are, and import PyTorch."""
        self._last_news = time.monotonic()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Reception":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Listen no longer, and tell all nodes that they are done."""
        if self._server is not None:
            self._server.close()
        links, self.links = self.links, {}
        await asyncio.gather(*(link.close() for link in links.values()))

    async def listen(self, address: str | None, port: int) -> int:
        """Listen there, and return the port. Raises InvalidSettings."""
        try:
            self._server = await asyncio.start_server(self._visit, address, port, limit=MOST_LINE_BYTES)
        except OSError as error:
            raise InvalidSettings(
                f"the coordinator cannot listen on port {port}: {error.strerror}",
                advice="choose another port, the same on all nodes: --coordinator HOST:PORT",
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def wait(self, seconds: float, *, most: float, patience: float | None = None) -> None:
        """Wait until all nodes are here, at most so long; for those that have connected, at most `most`.

        `patience`: how long to go on without news once most are here, where all were started at the same time. Who
        comes later is turned away.
        """
        began = self._last_news = time.monotonic()
        while len(self.links.keys() | self.gone.keys()) < self.nodes and time.monotonic() - began < most:
            silent = time.monotonic() - self._last_news
            enough = patience is not None and len(self.links) * 2 > self.nodes and silent > patience
            if not self._coming and (enough or time.monotonic() - began > seconds):
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._is_over = True

    async def admit(self, channel: Channel, *, ends_are_told: bool = False) -> None:
        """Take a node in by its first message. `ends_are_told`: somebody else says why nothing came of it."""
        channel.begin_to_beat()
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                before = time.time_ns()
                arrival = Arrival.model_validate(await channel.receive())
                self._last_news, self._coming = time.monotonic(), self._coming + 1
                try:
                    hello = await self._hello(channel, arrival, before)
                finally:
                    self._last_news, self._coming = time.monotonic(), self._coming - 1
            if self._is_over:
                raise NotPermitted(f"{hello.facts.host} reported when the preflight had begun")
            if hello.nodes != self.nodes or hello.node >= self.nodes:
                raise NotPermitted(f"{hello.facts.host} says that it is node {hello.node} of {hello.nodes}")
            if hello.node in self.links:
                raise NotPermitted(f"{hello.facts.host} says that it is node {hello.node}, which is here already")
        except (UnhangError, TimeoutError, ValidationError) as error:
            if not (ends_are_told and isinstance(error, Unreachable)):
                self.refuse(error)
            await channel.close()
            return
        self.links[hello.node] = NodeLink(channel, hello)

    async def _hello(self, channel: Channel, arrival: Arrival, before: int) -> Hello:
        """Read what a node says of itself after who it is: how long its report is, and the report."""
        self.arrivals.setdefault(arrival.here, arrival)
        self.clocks_ahead[arrival.here] = (
            (arrival.time_ns - time.time_ns()) / 1e9,
            (arrival.time_ns - before) / 1e9,
        )
        size = Announced.model_validate(await channel.receive()).report_bytes
        self.arrivals[arrival.here] = arrival.model_copy(update={"report_bytes": size})
        hello = Hello.model_validate(await channel.receive())
        if hello.node != arrival.here:
            raise NotPermitted(f"{arrival.host} came as node {arrival.here} and reports as node {hello.node}")
        return hello

    def refuse(self, error: Exception) -> None:
        """Remember why somebody was turned away, a few times."""
        self.other_tokens += isinstance(error, AnotherToken)
        if len(self.refused) < 8:
            self.refused.append(str(error).splitlines()[0][:200] if str(error) else type(error).__name__)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._strangers >= _MOST_STRANGERS + self.nodes:
            writer.close()
            return
        self._strangers += 1
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                channel = await greet(reader, writer, self._token)
        except (UnhangError, TimeoutError) as error:
            self.refuse(error)
            writer.close()
            return
        finally:
            self._strangers -= 1
        await self.admit(channel)
