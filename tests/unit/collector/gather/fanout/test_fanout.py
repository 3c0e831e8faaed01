"""Asking many agents: each way in which one can fail costs its own answer only, by the deadline."""

import asyncio
import gzip
import json
import re
import socket
import struct
import time
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.values import Answered, Request, RequestDeadline
from collector.hostlists import AgentAddress
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, RankList
from tests.build.agents.asking import GOOD, ask_agents
from tests.build.agents.fake_agents import FakeAgent, Handler, answering, case_ranks, listening, mounts
from tests.build.processes.ports import free_port
from tests.build.processes.waiting import undisturbed

pytestmark = pytest.mark.steady

ask = partial(ask_agents, seconds=5.0, most_bytes=1_000_000)
"""Within bounds that a test can reach."""


async def why(handle: Handler, **bounds: float) -> Missing:
    """Ask one misbehaving agent beside a good one, and return why the former gave nothing."""
    async with listening(handle) as bad, listening(answering(GOOD)) as good:
        outcome = await undisturbed(lambda: ask([bad, good], **bounds))
        assert [answer.address for answer in outcome.answered] == [good]
        (silent,) = outcome.silent
        assert silent.missing.source == bad.url
        return silent.missing


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut the connection off with a TCP reset."""
    await reader.readuntil(b"\r\n\r\n")
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close without an answer."""
    await reader.readuntil(b"\r\n\r\n")


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept, and never answer."""
    await reader.read()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Keep the connection alive with a byte at a time, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send more than anyone wants, without a length."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


class Chunk(httpx.AsyncByteStream):
    """A body that arrives in one piece."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield GOOD


def bomb() -> bytes:
    """Twenty times of what is allowed, in a fiftieth of it."""
    return gzip.compress(b" " * 20_000_000, compresslevel=9)


FAILURES: tuple[tuple[str, Handler, Reason, str], ...] = (
    ("reset", reset, Reason.UNREACHABLE, "reset"),
    ("hang up", hang_up, Reason.UNREADABLE, "does not speak HTTP, or broke off"),
    ("no http", answering(b"", status="nonsense"), Reason.UNREADABLE, "HTTP"),
    ("ssh", answering(b"SSH-2.0-OpenSSH\r\n", headers="\r\n"), Reason.UNREADABLE, "not a RankList"),
    ("half", answering(GOOD, length=len(GOOD) + 10), Reason.UNREADABLE, "broke off"),
    ("truncated", answering(GOOD[:-5]), Reason.UNREADABLE, "not a RankList"),
    ("html", answering(b"<html>welcome</html>"), Reason.UNREADABLE, "not a RankList"),
    ("other json", answering(b'{"status": "ok"}'), Reason.UNREADABLE, "host: Field required"),
    ("deep json", answering(b"[" * 500_000), Reason.UNREADABLE, "not a RankList"),
    ("not utf-8", answering(b'{"host": "\xff\xfe"}'), Reason.UNREADABLE, "not a RankList"),
    ("empty", answering(b""), Reason.UNREADABLE, "not a RankList"),
    ("oversized", answering(b" " * 1_000_001), Reason.REFUSED, "larger than 1000000 bytes"),
    ("endless", endless, Reason.REFUSED, "larger than"),
    ("bomb", answering(bomb(), headers="Content-Encoding: gzip\r\n"), Reason.REFUSED, "larger than"),
    ("no gzip", answering(GOOD, headers="Content-Encoding: gzip\r\n"), Reason.UNREADABLE, "compression is corrupt"),
    ("brotli", answering(GOOD, headers="Content-Encoding: br\r\n"), Reason.UNREADABLE, "not asked for: 'br'"),
    ("token", answering(b"{}", status="401 Unauthorized"), Reason.NOT_PERMITTED, "agent_token_file"),
    ("forbidden", answering(b"{}", status="403 Forbidden"), Reason.NOT_PERMITTED, "agent_token_file"),
    ("busy", answering(b"later", status="503 Service Unavailable"), Reason.REFUSED, "busy, HTTP 503"),
    ("broken", answering(b"oops", status="500 Internal Server Error"), Reason.UNREADABLE, "HTTP 500"),
    ("moved", answering(b"", status="302 Found", headers="Location: /\r\n"), Reason.UNREADABLE, "HTTP 302"),
    ("another service", answering(b"", status="404 Not Found"), Reason.UNREADABLE, "not an unhang agent"),
)


@pytest.mark.parametrize(("handle", "reason", "words"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_broken_agent_costs_its_own_answer_only(handle: Handler, reason: Reason, words: str) -> None:
    """Whatever one agent sends, the other's answer is kept, and the failure is told in words."""
    missing = await why(handle)
    assert missing.reason is reason
    assert words in missing.detail


@pytest.mark.parametrize("handle", [say_nothing, trickle])
async def test_agent_that_hangs_is_given_up_at_the_deadline(handle: Handler) -> None:
    """An agent that accepts and does not answer, or only drips, holds nobody up for longer than was allowed."""
    began = time.monotonic()
    missing = await why(handle, seconds=0.5)
    assert missing.reason is Reason.TIMED_OUT
    assert (told := re.search(r"within (\d\.\d) s", missing.detail)), missing.detail
    assert float(told[1]) < 3.0  # from when it was asked; longer than allowed by what kept this process from hearing it
    assert 0.5 <= time.monotonic() - began < 30.0


async def test_nobody_listens() -> None:
    """A closed port is unreachable, at once."""
    port = free_port()
    outcome = await ask([AgentAddress(host="node1", url=f"http://127.0.0.1:{port}")])
    (silent,) = outcome.silent
    assert silent.missing.reason is Reason.UNREACHABLE
    assert "connection was refused" in silent.missing.detail


async def test_name_does_not_resolve() -> None:
    """A host that no name server knows is unreachable, and the reason says so."""
    outcome = await ask([AgentAddress(host="nosuch.invalid", url="http://nosuch.invalid:8471")])
    (silent,) = outcome.silent
    assert silent.missing.reason is Reason.UNREACHABLE
    assert "does not resolve" in silent.missing.detail


async def test_newer_schema_is_not_guessed_at() -> None:
    """An agent that speaks a later schema is told apart from garbage, with the remedy."""
    body = json.dumps({"schema_version": 999, "host": "node1"}).encode()
    async with listening(answering(body)) as address, make_client() as client:
        outcome = await Fanout(client).ask(
            [Request(address, "/v1/snapshot", {})], NodeSnapshot, deadline=RequestDeadline.within(5)
        )
    assert "upgrade the collector" in outcome.silent[0].missing.detail


async def test_gzip_is_understood() -> None:
    """A compressed answer is an answer."""
    handle = answering(gzip.compress(GOOD), headers="Content-Encoding: gzip\r\n")
    async with listening(handle) as address:
        outcome = await ask([address])
    assert outcome.answered[0].value.host == "node1"


async def test_answers_come_in_the_order_of_the_questions() -> None:
    """Whoever is quicker changes nothing."""
    agents = [
        FakeAgent(f"node{i}", case_ranks("missing_rank2", (i,), host=f"node{i}"), delay_seconds=0.05 * (3 - i))
        for i in range(4)
    ]
    async with make_client(mounts=mounts(*agents)) as client:
        outcome = await Fanout(client).ask(
            [Request(agent.address, "/v1/snapshot", {}) for agent in agents],
            NodeSnapshot,
            deadline=RequestDeadline.within(5),
        )
    assert [answer.value.host for answer in outcome.answered] == ["node0", "node1", "node2", "node3"]


async def test_number_of_requests_in_flight_is_bounded() -> None:
    """A thousand agents are not asked at the same moment."""
    now, most = 0, 0

    async def app(request: httpx.Request) -> httpx.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return httpx.Response(200, stream=Chunk())

    async with make_client(transport=httpx.MockTransport(app)) as client:
        requests = [Request(AgentAddress(host=f"n{i}", url=f"http://n{i}:8471"), "/v1/ranks", {}) for i in range(100)]
        outcome = await Fanout(client, most_at_once=7).ask(requests, RankList, deadline=RequestDeadline.within(10))
    assert len(outcome.answered) == 100
    assert most == 7


async def test_hanging_agents_do_not_use_up_the_turns_of_others() -> None:
    """With more agents that hang than turns, the good ones at the end of the list are still asked."""
    async with listening(say_nothing) as bad, listening(answering(GOOD)) as good, make_client() as client:
        fanout = Fanout(client, most_at_once=2, node_seconds=0.2)
        requests = [Request(bad, "/v1/ranks", {})] * 6 + [Request(good, "/v1/ranks", {})]
        outcome = await fanout.ask(requests, RankList, deadline=RequestDeadline.within(5))
    assert len(outcome.silent) == 6
    assert len(outcome.answered) == 1


async def test_unexpected_errors_stay_with_their_agent() -> None:
    """An error that nobody thought of is one agent's, is told, and is counted."""

    async def app(request: httpx.Request) -> httpx.Response:
        if request.url.host == "n0":
            raise ZeroDivisionError("who would think of that")
        return httpx.Response(200, stream=Chunk())

    told: list[Missing] = []
    async with make_client(transport=httpx.MockTransport(app)) as client:
        fanout = Fanout(client, on_silence=lambda silent: told.append(silent.missing))
        requests = [Request(AgentAddress(host=f"n{i}", url=f"http://n{i}:8471"), "/v1/ranks", {}) for i in range(2)]
        outcome = await fanout.ask(requests, RankList, deadline=RequestDeadline.within(5))
    assert isinstance(outcome.answered[0], Answered)
    assert "ZeroDivisionError" in outcome.silent[0].missing.detail
    assert told == [outcome.silent[0].missing]


async def test_token_is_sent() -> None:
    """The agents' token goes out as a bearer token; proxies of the environment are left alone."""
    seen: list[str] = []

    async def app(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, stream=Chunk())

    async with make_client(token="s3cret", transport=httpx.MockTransport(app)) as client:
        request = Request(AgentAddress(host="n", url="http://n:8471"), "/v1/ranks", {})
        await Fanout(client).ask([request], RankList, deadline=RequestDeadline.within(5))
    assert seen == ["Bearer s3cret"]
