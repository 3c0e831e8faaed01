"""Many small pools of connections, which are kept and closed as one would be."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from collector.fanout.pools import POOLS, Pools
from tests.collector.fake_agents import listening

pytestmark = pytest.mark.anyio


class Counting:
    """A server that answers on kept connections, and knows how many it has had and has."""

    def __init__(self) -> None:
        self.accepted = 0
        self.open = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        finally:
            self.open -= 1


async def test_a_connection_is_kept_for_the_next_question_and_closed_in_the_end() -> None:
    server = Counting()
    async with listening(server) as address:
        async with httpx.AsyncClient(transport=Pools(verify=True, most_idle=POOLS), trust_env=False) as client:
            for _ in range(5):
                assert (await client.get(address.url)).text == "ok"
            assert server.accepted == 1
        await asyncio.sleep(0.2)
        assert server.open == 0


async def test_hosts_are_spread_and_no_more_are_kept_than_was_said() -> None:
    servers = [Counting() for _ in range(40)]
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(listening(server)) for server in servers]
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=Pools(verify=True, most_idle=1), trust_env=False)
        )
        answers = await asyncio.gather(*(client.get(address.url) for address in addresses))
        assert [answer.text for answer in answers] == ["ok"] * 40
        await asyncio.sleep(0.2)
        kept = sum(server.open for server in servers)
        assert 1 < kept <= POOLS
