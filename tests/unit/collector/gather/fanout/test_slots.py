"""A bounded number of connections, and hosts that hang beside hosts that answer: the latter are all asked in time."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from collector.gather.failures import Again
from collector.gather.fanout.connection_pools import POOLS
from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.values import Request, RequestDeadline, RoundOutcome
from collector.hostlists import AgentAddress
from shared.missing import Reason
from shared.wire.snapshot import RankList
from tests.build.agents.asking import GOOD, ask_agents
from tests.build.agents.misbehaving import answering_well, behaving, dropping_packets, say_nothing
from tests.build.processes.waiting import undisturbed, until

pytestmark = pytest.mark.steady


def counted_in(again: Counter[Again]) -> Callable[[Again], None]:
    """Count who was asked more than once, and why."""
    return lambda why: again.update([why])


async def test_connections_are_bounded() -> None:
    """A server that counts sees as many asked at once as may be; beside these a few connections are kept."""
    again: Counter[Again] = Counter()
    async with behaving(answering_well(GOOD, after_seconds=0.1)) as server:
        outcome = await ask_agents(server.addresses(200), seconds=60.0, most_at_once=10, on_again=counted_in(again))
    assert len(outcome.answered) == 200
    assert server.accepted == 200 + again.total()
    assert 5 < server.most_asked <= 10
    assert server.most_open <= 10 + POOLS


async def test_connections_are_bounded_where_agents_hang() -> None:
    """Those that are given up to ask others are closed, and count no more."""
    async with behaving(say_nothing) as hanging:
        outcome = await ask_agents(hanging.addresses(60), seconds=2.0, most_at_once=10)
        assert len(outcome.silent) == 60
        assert hanging.most_open <= 10


@pytest.mark.parametrize("last", [False, True])
async def test_hosts_that_drop_packets_keep_nobody_from_being_asked(last: bool) -> None:
    """Three hundred dead hosts before, or after, three hundred healthy ones: all the healthy ones answer."""
    async with behaving(answering_well(GOOD)) as healthy:
        with dropping_packets(300) as dead:
            good = healthy.addresses(300)
            asked = [*good, *dead] if last else [*dead, *good]
            outcome = await undisturbed(lambda: ask_agents(asked, seconds=6.0, most_at_once=64))
    assert {answer.address for answer in outcome.answered} == set(good)
    assert {silent.missing.reason for silent in outcome.silent} == {Reason.TIMED_OUT}
    assert all("no connection within" in silent.missing.detail for silent in outcome.silent)


async def test_agents_that_are_stopped_keep_nobody_from_being_asked() -> None:
    """The same with agents whose kernel takes the connection, and who say nothing, as a stopped process does."""
    again: Counter[Again] = Counter()
    async with behaving(answering_well(GOOD)) as healthy, behaving(say_nothing) as stopped:
        good = healthy.addresses(100)
        asked = [*stopped.addresses(100), *good]
        outcome = await undisturbed(lambda: ask_agents(asked, seconds=6.0, most_at_once=32, on_again=counted_in(again)))
    assert {answer.address for answer in outcome.answered} == set(good)
    assert again[Again.GAVE_WAY] > 0


async def test_a_host_that_drops_packets_is_given_up_before_the_deadline() -> None:
    """It tells nothing by being waited for: some seconds, whatever the deadline."""
    began = time.monotonic()
    with dropping_packets(1) as dead:
        outcome = await undisturbed(lambda: ask_agents(dead, seconds=60.0, most_at_once=4))
    (silent,) = outcome.silent
    took_seconds = time.monotonic() - began
    said = re.match(r"no connection within (\d+\.\d) s: the host is down, or something", silent.missing.detail)
    assert said is not None, silent.missing.detail
    assert 3.0 <= float(said[1]) <= took_seconds + 0.1
    assert took_seconds < 50.0


async def test_agents_that_are_all_slow_keep_their_turns() -> None:
    """Where everybody needs long, nobody hangs: no look is thrown away and begun anew."""
    again: Counter[Again] = Counter()
    async with behaving(answering_well(GOOD, after_seconds=0.6)) as server:
        outcome = await ask_agents(server.addresses(40), seconds=30.0, most_at_once=8, on_again=counted_in(again))
    assert len(outcome.answered) == 40
    assert (server.accepted, again[Again.GAVE_WAY]) == (40, 0)


async def test_a_slow_one_among_the_quick_is_waited_for() -> None:
    """It holds less than half of the turns, so that the others need not have its."""
    async with (
        behaving(answering_well(GOOD, after_seconds=2.0)) as slow,
        behaving(answering_well(GOOD, after_seconds=0.01)) as quick,
    ):
        again: Counter[Again] = Counter()
        outcome = await ask_agents(
            [slow.address, *quick.addresses(200)],
            seconds=30.0,
            most_at_once=4,
            on_again=counted_in(again),
        )
    assert len(outcome.answered) == 201
    assert again[Again.GAVE_WAY] == 0


async def test_what_stops_a_process_for_long_is_not_made_to_give_way() -> None:
    """Native stacks are asked for once: whoever waits for the turn waits, though plain ones would give it up at 1 s."""
    async with behaving(answering_well(GOOD, after_seconds=1.3)) as slow, make_client() as client:
        fanout = Fanout(client, most_at_once=1)
        requests = [Request(address, "/v1/snapshot", {"stacks": "native"}) for address in slow.addresses(3)]
        outcome = await fanout.ask(requests, RankList, deadline=RequestDeadline.within(6.0))
    assert len(outcome.answered) == 3
    assert slow.accepted == 3


async def test_who_is_cancelled_leaves_its_turn_to_others() -> None:
    """A caller that goes away, while it is asked or while it waits, takes no turn along."""
    async with behaving(say_nothing) as hanging, behaving(answering_well(GOOD)) as good, make_client() as client:
        fanout = Fanout(client, most_at_once=2)

        async def ask_all(addresses: Sequence[AgentAddress]) -> RoundOutcome[RankList]:
            requests = [Request(address, "/v1/ranks", {}) for address in addresses]
            return await fanout.ask(requests, RankList, deadline=RequestDeadline.within(20.0))

        leaving = asyncio.create_task(ask_all(hanging.addresses(6)))
        await until(lambda: hanging.open == 2)
        leaving.cancel()
        await asyncio.wait({leaving})
        assert len((await ask_all(good.addresses(6))).answered) == 6
