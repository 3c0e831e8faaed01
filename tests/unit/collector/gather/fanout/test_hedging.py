"""Asking once more: who is late, whose connection broke off, and what is never asked twice."""

import asyncio
import gzip
import socket
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from collector.gather.failures import Again
from collector.gather.fanout.one_agent import AGAIN_SECONDS, CONNECT_SECONDS
from collector.gather.fanout.one_request import Parameters
from collector.gather.fanout.values import RoundOutcome
from collector.hostlists import AgentAddress
from shared.missing import Reason
from shared.wire.snapshot import RankList
from tests.build.agents.asking import GOOD, ask_agents
from tests.build.agents.misbehaving import (
    Behaviour,
    Seen,
    answer_of,
    answering_well,
    behaving,
    dropping_packets,
    hang_up,
    in_turn,
    many_addresses,
    next_request,
    reset,
    say_nothing,
    sending,
)
from tests.build.processes.waiting import until

pytestmark = pytest.mark.steady

WELL = answering_well(GOOD)


class Counted:
    """A fan-out whose second tries are counted."""

    def __init__(self) -> None:
        self.again: Counter[Again] = Counter()
        self.helped: Counter[Again] = Counter()

    async def ask(self, addresses: Sequence[AgentAddress], **how: Any) -> RoundOutcome[RankList]:
        """Ask all as `ask_agents` does."""
        return await ask_agents(
            addresses,
            on_again=lambda why: self.again.update([why]),
            on_second_answer=lambda why: self.helped.update([why]),
            **how,
        )


async def test_a_late_agent_is_asked_again_on_another_connection() -> None:
    """Its first connection leads nowhere; all others have answered long ago: the second try brings the answer."""
    counted, began = Counted(), time.monotonic()
    async with behaving(WELL) as quick, behaving(in_turn(say_nothing, WELL)) as late:
        outcome = await counted.ask([*quick.addresses(30), late.address], seconds=60.0)
    assert len(outcome.answered) == 31
    assert late.accepted == 2
    assert (counted.again, counted.helped) == ({Again.LATE: 1}, {Again.LATE: 1})
    assert time.monotonic() - began < 20.0


async def test_the_first_answer_counts() -> None:
    """A second try that is slower than the first is given up, and its connection closed."""
    counted = Counted()

    async def be_slow(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(seen, reader)
        await until(lambda: len(seen.requests) == 2)
        writer.write(answer_of(GOOD))
        await reader.read()

    async with behaving(WELL) as quick, behaving(in_turn(be_slow, say_nothing)) as late:
        outcome = await counted.ask([*quick.addresses(10), late.address])
        assert len(outcome.answered) == 11
        assert (late.accepted, counted.again, counted.helped) == (2, {Again.LATE: 1}, {})
        await until(lambda: late.open == 0)


async def test_the_second_try_may_bring_what_the_first_breaks_off() -> None:
    """The first connection dies while the second is under way: that is no failure yet."""

    async def die_slowly(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(seen, reader)
        await until(lambda: len(seen.requests) == 2)
        writer.write(answer_of(b"<html>", status="500 Internal Server Error"))
        await writer.drain()

    counted = Counted()
    async with behaving(WELL) as quick, behaving(in_turn(die_slowly, answering_well(GOOD, after_seconds=0.5))) as late:
        outcome = await counted.ask([*quick.addresses(10), late.address])
    assert len(outcome.answered) == 11
    assert counted.helped == {Again.LATE: 1}


async def test_few_of_a_round_are_asked_again() -> None:
    """One in twenty at most: the rest of a round is no measure where many are late."""
    counted = Counted()
    async with behaving(WELL) as quick, behaving(say_nothing) as hanging:
        outcome = await counted.ask([*quick.addresses(60), *hanging.addresses(3)], seconds=3.0)
        assert len(outcome.silent) == 3
        assert counted.again == {Again.LATE: 3}
        assert hanging.accepted == 6
        await counted.ask([*quick.addresses(60), *hanging.addresses(8)], seconds=2.0)
        assert counted.again == {Again.LATE: 3}


async def test_one_agent_alone_is_never_late() -> None:
    """There is nothing to compare it with."""
    counted = Counted()
    async with behaving(answering_well(GOOD, after_seconds=1.5)) as slow:
        await counted.ask([slow.address])
    assert (slow.accepted, counted.again) == (1, {})


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/snapshot", {"stacks": "native", "pid": [7]}),
        ("/v1/snapshot", {"stacks": "plain", "ras": "true"}),
        ("/v1/ranks/7/deep", {"how": "gdb"}),
    ],
)
async def test_what_costs_a_job_dear_is_not_asked_twice_at_once(path: str, parameters: Parameters) -> None:
    """Native stacks and debuggers stop a process for long, and RAS costs the whole job a round of messages."""
    counted = Counted()
    async with behaving(WELL) as quick, behaving(answering_well(GOOD, after_seconds=1.5)) as late:
        outcome = await counted.ask([*quick.addresses(10), late.address], path=path, parameters=parameters)
    assert len(outcome.answered) == 11
    assert (late.accepted, counted.again) == (1, {})


@pytest.mark.parametrize("broken", [reset, hang_up])
@pytest.mark.parametrize("parameters", [{"stacks": "native"}])
async def test_what_stops_a_process_is_not_asked_again_though_it_broke_off(
    broken: Behaviour, parameters: Parameters
) -> None:
    """The agent may have done it already."""
    counted = Counted()
    async with behaving(in_turn(broken, WELL)) as agent:
        outcome = await counted.ask([agent.address], path="/v1/snapshot", parameters=parameters)
    assert len(outcome.silent) == 1
    assert (agent.accepted, counted.again) == (1, {})


_HALF_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" + GOOD
_HALF_GZIP = answer_of(gzip.compress(GOOD)[:-12], headers="Content-Encoding: gzip\r\n")
BROKEN = {
    "reset": reset,
    "hung up": hang_up,
    "half a body": sending(answer_of(GOOD, length=len(GOOD) + 10)),
    "half a chunk": sending(_HALF_CHUNKED),
    "half of the compressed": sending(_HALF_GZIP),
    "half a head": sending(b"HTTP/1.1 200 OK\r\nContent-Len"),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_what_broke_off_is_asked_again_once(broken: Behaviour) -> None:
    """A moment later it may go well. Where it does not, that is the agent's answer."""
    counted = Counted()
    async with behaving(in_turn(broken, WELL)) as agent:
        outcome = await counted.ask([agent.address])
        assert len(outcome.answered) == 1
        assert (agent.accepted, counted.again, counted.helped) == (2, {Again.BROKE_OFF: 1}, {Again.BROKE_OFF: 1})
    async with behaving(broken) as agent:
        outcome = await counted.ask([agent.address])
        assert outcome.silent[0].missing.reason in (Reason.UNREACHABLE, Reason.UNREADABLE)
        assert agent.accepted == 2


async def test_connections_are_kept_for_the_next_look() -> None:
    """An agent that answers well is asked over one connection."""
    async with behaving(WELL) as agent:
        await Counted().ask([agent.address], rounds=3)
    assert (agent.accepted, len(agent.requests)) == (1, 3)


async def test_a_kept_connection_to_an_agent_that_was_restarted() -> None:
    """The agent that is asked over it is gone; the one that listens there now is asked at once."""

    async def vanish(seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(seen, reader)
        writer.write(answer_of(GOOD))
        await writer.drain()
        await reset(seen, reader, writer)

    counted = Counted()
    async with behaving(in_turn(vanish, WELL)) as agent:
        outcome = await counted.ask([agent.address], rounds=2)
    assert len(outcome.answered) == 1
    assert (agent.accepted, counted.again) == (2, {Again.BROKE_OFF: 1})


async def test_an_agent_that_comes_up_while_it_is_asked() -> None:
    """A host that took no connection at first takes one when the kernel tries again."""
    with socket.create_server(("", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            asked = asyncio.create_task(Counted().ask(many_addresses(1, port, net=77), seconds=60.0))
            await asyncio.sleep(0.3)
            async with behaving(WELL, listener=listener):
                outcome = await asked
    assert len(outcome.answered) == 1


async def test_a_host_that_was_not_reached_is_waited_for_briefly() -> None:
    """Whoever registers hosts that are not there does not slow down every question."""
    with dropping_packets(1) as addresses:
        began = time.monotonic()
        (silent,) = (await Counted().ask(addresses, rounds=3)).silent
    assert 3 * CONNECT_SECONDS > CONNECT_SECONDS + 2 * AGAIN_SECONDS + 2.0 > time.monotonic() - began
    assert silent.missing.detail.endswith("it was not reached before, and so given less time")
