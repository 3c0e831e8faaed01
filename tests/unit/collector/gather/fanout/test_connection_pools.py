"""Many small pools of connections: no more are kept than was said, and none that is of no use."""

import asyncio
import contextlib
import functools
import random
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpcore
import httpx
import pytest

from collector.gather.fanout import connection_pools as pools
from collector.gather.fanout.connection_pools import POOLS, Pools
from tests.build.agents.misbehaving import (
    answer_of,
    answering_well,
    behaving,
    say_nothing,
)
from tests.build.processes.waiting import until

WELL = answering_well(b"ok")
TRUSTED = functools.partial(httpx.create_ssl_context, trust_env=False)


@asynccontextmanager
async def client_of(most_idle: int = POOLS) -> AsyncIterator[httpx.AsyncClient]:
    """A client over pools."""
    async with httpx.AsyncClient(transport=Pools(trusted=TRUSTED, most_idle=most_idle), trust_env=False) as client:
        yield client


async def test_questions_that_are_given_up_leave_nothing_behind() -> None:
    """At any moment: httpcore's pool forgets some of their connections, and new ones take its place."""
    chance = random.Random(20_261_122)

    async def ask_and_give_up(client: httpx.AsyncClient, url: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1 * chance.random()):
                await client.get(url)

    async with behaving(answering_well(b"x" * 2000)) as agent, client_of() as client:
        for _ in range(40):
            await asyncio.gather(*(ask_and_give_up(client, agent.address.url) for _ in range(20)))
        assert (await client.get(agent.address.url)).status_code == 200
        await until(lambda: agent.open == 1)


def test_httpx_keeps_its_pool_where_ours_is_put() -> None:
    """httpx has no parameter for what makes connections; with another name of this attribute nobody is asked."""
    assert isinstance(httpx.AsyncHTTPTransport(verify=TRUSTED(), trust_env=False)._pool, httpcore.AsyncConnectionPool)


async def test_agents_are_spread_and_no_more_connections_are_kept_than_was_said() -> None:
    async with behaving(WELL) as agents, client_of(most_idle=1) as client:
        answers = await asyncio.gather(*(client.get(address.url) for address in agents.addresses(100)))
        assert [answer.text for answer in answers] == ["ok"] * 100
        await until(lambda: agents.open <= POOLS)
        assert agents.open > 10


async def test_nothing_is_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed some time after it was last used, when another in its pool is asked for."""
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(pools, "POOLS", 1)
    async with behaving(WELL) as old, behaving(WELL) as other, client_of(most_idle=10) as client:
        await asyncio.gather(*(client.get(address.url) for address in old.addresses(3)))
        await asyncio.sleep(0.5)
        assert old.open == 3
        await client.get(other.address.url)
        await until(lambda: (old.open, other.open) == (0, 1))
        await client.get(old.addresses(1)[0].url)
        assert old.accepted == 4


async def test_a_connection_that_was_closed_while_the_loop_did_not_run_is_not_asked_on() -> None:
    """The socket tells, though no event has."""
    to_be_closed, closed = threading.Event(), threading.Event()

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer_of(b"ok"))
                to_be_closed.wait(30.0)
            closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        async with client_of() as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            await client.get(url)
            to_be_closed.set()
            closed.wait(30.0)
            assert (await client.get(url)).text == "ok"
        server.join()


async def test_connections_in_use_are_closed_with_the_client() -> None:
    async with behaving(say_nothing) as agent:
        async with client_of() as client:
            asked = asyncio.create_task(client.get(agent.address.url))
            await until(lambda: agent.open == 1)
        with pytest.raises(httpx.TransportError):
            await asked
        await until(lambda: agent.open == 0)
