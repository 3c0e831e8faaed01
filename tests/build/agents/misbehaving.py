"""Agents behind real sockets that behave badly, each in one way, and count who came."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from collector.hostlists import AgentAddress


@dataclass
class Seen:
    """What one socket saw."""

    port: int = 0
    accepted: int = 0
    open: int = 0
    most_open: int = 0
    asked: int = 0
    most_asked: int = 0
    requests: list[str] = field(default_factory=list)
    """The request lines, in the order in which they came."""

    @property
    def address(self) -> AgentAddress:
        """Where it is asked."""
        return AgentAddress(host=f"127.0.0.1:{self.port}", url=f"http://127.0.0.1:{self.port}")

    def addresses(self, number: int) -> tuple[AgentAddress, ...]:
        """As if it were many hosts."""
        return many_addresses(number, self.port, net=78)


Behaviour = Callable[[Seen, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def behaving(behaviour: Behaviour, *, listener: socket.socket | None = None) -> AsyncIterator[Seen]:
    """Listen on all addresses, or with a socket that is bound, and let `behaviour` treat each connection."""
    seen = Seen()
    tasks: set[asyncio.Task[None] | None] = set()

    async def treat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        seen.accepted += 1
        seen.open += 1
        seen.most_open = max(seen.most_open, seen.open)
        try:
            await behaviour(seen, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            if server.is_serving():  # else it is the end of the test
                raise
        finally:
            seen.open -= 1
            writer.close()

    listener = listener or socket.create_server(("", 0))
    server = await asyncio.start_server(treat, sock=listener, backlog=1024)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)


async def next_request(seen: Seen, reader: asyncio.StreamReader) -> str:
    """Read one request's head, and note its first line. Raises IncompleteReadError where the connection ends."""
    head = await reader.readuntil(b"\r\n\r\n")
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    seen.requests.append(line)
    return line


def answer_of(body: bytes, *, headers: str = "", status: str = "200 OK", length: int | None = None) -> bytes:
    """One HTTP response; `length` may lie about the body's."""
    claimed = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {claimed}\r\n{headers}\r\n".encode() + body


def answering_well(body: bytes, *, after_seconds: float = 0.0) -> Behaviour:
    """Answer every request of a kept connection."""

    async def treat(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await next_request(seen, reader)
            seen.asked += 1
            seen.most_asked = max(seen.most_asked, seen.asked)
            await asyncio.sleep(after_seconds)
            seen.asked -= 1
            writer.write(answer_of(body))
            await writer.drain()

    return treat


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Treat each new connection in the next way, and all further ones in the last."""

    async def treat(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await behaviours[min(seen.accepted, len(behaviours)) - 1](seen, reader, writer)

    return treat


def sending(raw: bytes, *, then: Behaviour | None = None) -> Behaviour:
    """Send some bytes after a request, and close the connection, or go on in another way."""

    async def treat(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(seen, reader)
        writer.write(raw)
        await writer.drain()
        if then is not None:
            await then(seen, reader, writer)

    return treat


async def say_nothing(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the request, and never answer."""
    await next_request(seen, reader)
    await reader.read()


async def reset(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut the connection off with a TCP reset."""
    await next_request(seen, reader)
    linger_not = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)


async def hang_up(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close without an answer."""
    await next_request(seen, reader)


def trickling(raw: bytes, *, every_seconds: float = 0.1) -> Behaviour:
    """Send `raw` again and again, a byte at a time."""

    async def treat(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            for byte in raw:
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(every_seconds)

    return treat


def pouring(raw: bytes) -> Behaviour:
    """Send `raw` again and again, as fast as it is taken."""

    async def treat(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(raw)
            await writer.drain()

    return treat


@contextmanager
def dropping_packets(number: int) -> Iterator[tuple[AgentAddress, ...]]:
    """Addresses of a listener with a full backlog: Linux drops every further SYN, as a dead host does."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            yield many_addresses(number, port, net=77)


def many_addresses(number: int, port: int, *, net: int) -> tuple[AgentAddress, ...]:
    """Hosts of loopback that one listener on all addresses answers for; connections are kept per host."""
    hosts = [f"127.{net}.{at // 250}.{at % 250 + 1}" for at in range(number)]
    return tuple(AgentAddress(host=f"{host}:{port}", url=f"http://{host}:{port}") for host in hosts)
