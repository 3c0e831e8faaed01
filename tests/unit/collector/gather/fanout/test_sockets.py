"""Connections that are refused, lead nowhere, break off or are given up; and names with several addresses."""

import asyncio
import errno
import gc
import socket
import struct
import time
from pathlib import Path

import httpcore
import pytest

from collector.gather.fanout.sockets import Backend
from collector.hostlists import AgentAddress
from shared.missing import Reason
from tests.build.agents.asking import GOOD, MOST, ask_agent, connect
from tests.build.agents.fake_agents import listening
from tests.build.agents.misbehaving import (
    answering_well,
    behaving,
    dropping_packets,
    pouring,
    say_nothing,
)
from tests.build.processes.ports import free_port
from tests.build.processes.waiting import until


def sockets() -> int:
    """How many sockets are open in this process."""
    gc.collect()
    kinds = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(kind.startswith("socket:") for kind in kinds)


async def test_a_connection_that_is_refused_tells_so() -> None:
    with pytest.raises(httpcore.ConnectError) as refused:
        await connect("127.0.0.1", free_port(), None, seconds=5.0)
    assert isinstance(refused.value.__cause__, OSError)
    assert refused.value.__cause__.errno == errno.ECONNREFUSED


async def test_a_connection_is_tried_again_where_httpcore_is_told_to() -> None:
    """A backend waits before that."""
    async with httpcore.AsyncConnectionPool(network_backend=Backend(), retries=2) as pool:
        began = time.monotonic()
        with pytest.raises(httpcore.ConnectError):
            await pool.request("GET", f"http://127.0.0.1:{free_port()}/")
        assert time.monotonic() - began >= 0.5


@pytest.mark.parametrize("way", ["time", "cancelled"])
async def test_a_connection_that_leads_nowhere_is_given_up_and_closed(way: str) -> None:
    with dropping_packets(1) as (dead,):
        before, began = sockets(), time.monotonic()
        host, port = dead.host.split(":")
        seconds = 0.5 if way == "time" else 60.0
        asked = asyncio.create_task(connect(host, int(port), None, seconds=seconds))
        if way == "cancelled":
            await until(lambda: sockets() == before + 1)
            asked.cancel()
        with pytest.raises(httpcore.ConnectTimeout if way == "time" else asyncio.CancelledError):
            await asked
        assert time.monotonic() - began < 30.0
        assert sockets() == before


async def test_who_reads_may_go_away_and_come_back() -> None:
    """Nothing that came meanwhile is lost."""
    nobody_reads = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        await nobody_reads.wait()
        writer.write(b"there")
        await reader.read()

    async with listening(late) as address:
        connection = await _to(address)
        await connection.write(b"hi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await connection.read(MOST)
        with pytest.raises(httpcore.ReadTimeout):
            await connection.read(MOST, timeout=0.1)
        nobody_reads.set()
        await until(lambda: connection.get_extra_info("is_readable"))
        assert await connection.read(3) == b"the"
        assert await connection.read(MOST) == b"re"
        assert not connection.get_extra_info("is_readable")
        await connection.aclose()
        assert connection.get_extra_info("is_readable")


async def test_what_broke_off_is_read_up_to_there() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await reader.read(2)
        linger_not = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)

    async with listening(break_off) as address:
        connection = await _to(address)
        await asyncio.sleep(0.1)
        await connection.write(b"go")
        await asyncio.sleep(0.1)
        assert await connection.read(MOST) == b"half"
        for _ in range(2):
            with pytest.raises(httpcore.ReadError) as broken:
                await connection.read(MOST)
            assert isinstance(broken.value.__cause__, ConnectionResetError)
        with pytest.raises(httpcore.WriteError):
            await connection.write(b"into the void")
        await connection.aclose()


async def test_the_end_is_read_as_often_as_one_likes() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")

    async with listening(end) as address:
        connection = await _to(address)
        assert [await connection.read(MOST) for _ in range(3)] == [b"all", b"", b""]


async def test_who_pours_is_made_to_wait_for_the_reader() -> None:
    """Little is taken that nobody has read, and all of it arrives."""
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(400):
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with listening(pour) as address:
        connection = await _to(address)
        await asyncio.sleep(0.5)
        assert sent < 20_000_000
        came = 0
        while piece := await connection.read(MOST):
            assert len(piece) <= MOST
            came += len(piece)
        assert came == 400 * 65_536


async def test_who_pours_does_not_hold_up_the_others() -> None:
    """While one connection is read without an end, everything else goes on."""
    async with behaving(pouring(b"x" * 1_000_000)) as agent:
        connection = await _to(agent.address)

        async def read_on() -> None:
            while await connection.read(MOST):
                pass

        reading = asyncio.create_task(read_on())
        began = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert time.monotonic() - began < 30.0
        reading.cancel()
        await asyncio.wait({reading})
        await connection.aclose()


async def test_small_questions_are_sent_at_once() -> None:
    """Without Nagle's delay: over TLS a question follows a part of the handshake that nobody acknowledges."""
    async with behaving(say_nothing) as agent:
        connection = await _to(agent.address)
        assert connection.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await connection.aclose()


async def test_an_ipv6_address() -> None:
    """Where the machine has none, that is told of the agent as of any that cannot be reached."""
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        outcome = await ask_agent("http://[::1]:1")
        assert outcome.silent[0].missing.reason is Reason.UNREACHABLE
        return
    async with behaving(answering_well(GOOD), listener=listener) as agent:
        outcome = await ask_agent(f"http://[::1]:{agent.port}")
    assert len(outcome.answered) == 1


async def test_a_name_with_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One refuses, one leads nowhere, one answers: that one is taken, and all others closed."""
    async with behaving(say_nothing) as agent:
        with dropping_packets(1) as (dead,):
            await _named(monkeypatch, _refusing(), dead, agent.address)
            before = sockets()
            connection = await connect("node1", 1, None, seconds=10.0)
            assert connection.get_extra_info("server_addr")[1] == agent.port
            await until(lambda: sockets() == before + 2)  # one at each end
            await connection.aclose()


async def test_a_name_none_of_whose_addresses_takes_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    await _named(monkeypatch, _refusing(), _refusing())
    outcome = await ask_agent("http://node1:1")
    assert outcome.silent[0].missing.detail == "the connection was refused: no agent listens there"


async def test_a_name_whose_addresses_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with dropping_packets(3) as dead:
        await _named(monkeypatch, *dead)
        before = sockets()
        with pytest.raises(httpcore.ConnectTimeout):
            await connect("node1", 1, None, seconds=1.0)
        await until(lambda: sockets() == before)


async def _to(address: AgentAddress) -> httpcore.AsyncNetworkStream:
    host, port = address.host.split(":")
    return await connect(host, int(port), None, seconds=5.0)


def _refusing() -> AgentAddress:
    port = free_port()
    return AgentAddress(host=f"127.0.0.1:{port}", url=f"http://127.0.0.1:{port}")


async def _named(monkeypatch: pytest.MonkeyPatch, *addresses: AgentAddress) -> None:
    """Let every name have these addresses, ports included."""
    pairs = [address.host.split(":") for address in addresses]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, int(port))) for host, port in pairs]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
