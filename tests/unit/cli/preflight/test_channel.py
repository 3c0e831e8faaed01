"""Messages between the coordinator and a node, and who must not write any."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from cli.preflight import channel
from cli.preflight.channel import Channel, greet, introduce
from cli.preflight.coordinator import Reception
from cli.preflight.member import join
from cli.preflight.place import NodePlace
from shared.errors import NotPermitted, Unreachable

TOKEN = b"a-token-of-these-tests"


class Tap:
    """A stream to write to, of which somebody on the way changes what is written."""

    def __init__(self, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]) -> None:
        self._writer = writer
        self._change = change

    def write(self, data: bytes) -> None:
        """Write what becomes of it."""
        self._writer.write(self._change(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


class Wire:
    """Two ends of a connection."""

    def __init__(self, change: Callable[[bytes], bytes] = lambda line: line) -> None:
        self._change = change

    async def __aenter__(self) -> "Wire":
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=near)
        self.here = reader, Tap(writer, self._change)
        self.there = await asyncio.open_connection(sock=far)
        return self

    async def __aexit__(self, *_: object) -> None:
        for _, writer in (self.here, self.there):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    while not holds():  # noqa: ASYNC110 - nothing says when
        await asyncio.sleep(0.01)


async def both(wire: Wire, token: bytes = TOKEN) -> tuple[Channel, Channel]:
    """Return the node's channel and the coordinator's."""
    node, coordinator = await asyncio.gather(introduce(*wire.here, token), greet(*wire.there, TOKEN))
    return node, coordinator


async def test_both_ways() -> None:
    """What is sent arrives, in its order; the end is an error."""
    async with Wire() as wire:
        node, coordinator = await both(wire)
        for number in range(3):
            await node.send({"number": number})
            await coordinator.send({"twice": number * 2})
        assert [await coordinator.receive() for _ in range(3)] == [{"number": number} for number in range(3)]
        assert [await node.receive() for _ in range(3)] == [{"twice": number * 2} for number in range(3)]
        await node.close()
        with pytest.raises(Unreachable):
            await coordinator.receive()


async def test_a_coordinator_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose machine lost power: the node does not wait for it; while it beats, the node waits."""
    monkeypatch.setattr(channel, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(channel, "SILENCE_SECONDS", 0.5)
    async with Wire() as wire:
        node, coordinator = await both(wire)
        coordinator.begin_to_beat()
        until = asyncio.get_running_loop().time() + 1.0
        while asyncio.get_running_loop().time() < until:
            assert await node.receive_beat() == {"do": "ping"}
    async with Wire() as wire:
        node, coordinator = await both(wire)
        with pytest.raises(Unreachable, match="nothing came from it"):
            await node.receive_beat()


async def test_another_token() -> None:
    """The coordinator turns it away, and the token is on no wire."""
    seen: list[bytes] = []

    def spy(line: bytes) -> bytes:
        seen.append(line)
        return line

    async with Wire(spy) as wire:
        here, there = wire.here, wire.there
        joining = asyncio.create_task(introduce(*here, b"another-token-altogether"))
        with pytest.raises(NotPermitted, match="another token"):
            await greet(*there, TOKEN)
        there[1].close()
        with pytest.raises(NotPermitted, match="the coordinator has another token"):
            await joining
    assert TOKEN not in b"".join(seen)


async def test_a_coordinator_with_another_token() -> None:
    """A node proves nothing to somebody who only says that he is the coordinator."""
    async with Wire() as wire:
        here, there = wire.here, wire.there
        joining = asyncio.create_task(introduce(*here, TOKEN))
        there[1].write(b'{"nonce": "0"}\n')
        await there[0].readline()
        there[1].write(b'{"proof": "0"}\n')
        with pytest.raises(NotPermitted, match="the coordinator has another token"):
            await joining


def _changed(line: bytes) -> bytes:
    return line.replace(b"good", b"evil")


def _repeated(line: bytes) -> bytes:
    return line * 2 if b"good" in line else line


@pytest.mark.parametrize("change", [_changed, _repeated])
async def test_somebody_on_the_way(change: Callable[[bytes], bytes]) -> None:
    """A line that was changed, or comes a second time, is refused."""
    async with Wire(change) as wire:
        node, coordinator = await both(wire)
        await node.send({"node": "good"})
        received = (await asyncio.gather(coordinator.receive(), return_exceptions=True))[0]
        if received == {"node": "good"}:
            (received,) = await asyncio.gather(coordinator.receive(), return_exceptions=True)
        assert isinstance(received, NotPermitted)


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"\n", b"[" * 100_000 + b"\n", b'{"nonce": 1, "proof": 2}\n', b"{" * 9_999],
)
async def test_strangers_are_turned_away(said: bytes) -> None:
    """Whatever they say, the reception goes on, and remembers why."""
    async with Reception(2, TOKEN) as reception:
        port = await reception.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert "nonce" in json.loads(await reader.readline())
        with suppress(OSError):
            writer.write(said)
            writer.write_eof()
            await reader.read()
        writer.close()
        await until(lambda: bool(reception.refused))
        assert reception.links == {}


async def test_a_node_with_another_token() -> None:
    """It comes once, and is told why."""
    async with Reception(2, TOKEN) as reception:
        port = await reception.listen("127.0.0.1", 0)
        with pytest.raises(NotPermitted, match="the coordinator has another token"):
            await join(NodePlace(1, 2, "127.0.0.1", port), b"another-token-altogether", python="none", seconds=60.0)
        await until(lambda: reception.other_tokens == 1)


async def test_a_hello_that_is_none() -> None:
    """A node that knows the token, and says nonsense or that it is another node, is not taken in."""
    for hello in (
        {},
        {"node": 7, "nodes": 2, "facts": {"host": "a"}},
        {"node": -1, "nodes": 2, "facts": {"host": "a"}},
    ):
        async with Reception(2, TOKEN) as reception:
            port = await reception.listen("127.0.0.1", 0)
            channel = await introduce(*await asyncio.open_connection("127.0.0.1", port), TOKEN)
            await channel.send(hello)
            with pytest.raises(Unreachable):
                await channel.receive()
            assert reception.links == {} and reception.refused
            await channel.close()
