"""While the collector itself does not run, no agent is late: its answer is read, or the collector says it was busy."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import Response

from collector.gather.fanout.loop_lag import LoopLag
from collector.gather.fanout.values import RoundOutcome
from collector.hostlists import AgentAddress
from shared.missing import Reason
from shared.wire.snapshot import RankList
from tests.build.agents.asking import ask_agents
from tests.build.agents.fake_agents import FakeAgent, case_ranks
from tests.build.agents.misbehaving import behaving, dropping_packets, say_nothing
from tests.build.agents.served_agents import served
from tests.build.processes.waiting import undisturbed

pytestmark = pytest.mark.steady

BLOCKED_SECONDS = 1.5


async def block(after_seconds: float, *, seconds: float = BLOCKED_SECONDS, times: int = 1) -> None:
    """Keep the event loop from running, as much work or a machine without a free processor does."""
    for _ in range(times):
        await asyncio.sleep(after_seconds)
        time.sleep(seconds)  # noqa: ASYNC251 - that is the point


async def ask_while_blocked(
    addresses: Sequence[AgentAddress], *, blocking: asyncio.Task[None], **how: Any
) -> RoundOutcome[RankList]:
    """Ask while something blocks the loop."""
    try:
        return await ask_agents(addresses, **how)
    finally:
        blocking.cancel()


class SlowAgent(FakeAgent):
    """Answers after a moment, in a thread of its own."""

    def __init__(self) -> None:
        super().__init__("node1", case_ranks("missing_rank2", range(4), host="node1"))
        self.was_asked = threading.Event()
        self.answers = threading.Event()

    async def _list(self) -> Response:
        self.was_asked.set()
        await asyncio.sleep(0.3)
        self.answers.set()
        return await super()._list()


LIMIT_SECONDS = 3.0


@pytest.mark.parametrize(
    ("seconds", "node_seconds"),
    [(60.0, LIMIT_SECONDS), (LIMIT_SECONDS, 60.0)],
    ids=["past the agent's own limit", "past the deadline"],
)
async def test_an_answer_that_came_while_the_loop_did_not_run_is_read(seconds: float, node_seconds: float) -> None:
    """The agent answers in time, and the loop runs again when all time has passed."""
    agent, began = SlowAgent(), time.monotonic()

    async def block_until_late() -> None:
        await asyncio.to_thread(agent.was_asked.wait, 30.0)
        agent.answers.wait(30.0)
        time.sleep(max(0.7, began + LIMIT_SECONDS + 1.0 - time.monotonic()))  # noqa: ASYNC251 - that is the point

    with served(agent) as url:
        blocking = asyncio.create_task(block_until_late())
        address = AgentAddress(host="node1", url=url)
        outcome = await ask_while_blocked([address], seconds=seconds, node_seconds=node_seconds, blocking=blocking)
    assert [answer.address.host for answer in outcome.answered] == ["node1"]


async def test_whom_the_collector_was_too_busy_to_hear_is_not_said_to_be_down() -> None:
    """An agent that is slow, and a host whose packets are dropped, look alike to a collector that hardly runs."""
    with dropping_packets(3) as dead:
        async with behaving(say_nothing) as mute:
            blocking = asyncio.create_task(block(0.01, seconds=0.4, times=100))
            outcome = await ask_while_blocked([*dead, mute.address], seconds=2.5, blocking=blocking)
    assert len(outcome.silent) == 4
    for silent in outcome.silent:
        assert silent.missing.reason is Reason.TIMED_OUT
        assert "the collector was too busy to read the answer" in silent.missing.detail
        assert "s behind" in silent.missing.detail


async def test_a_collector_that_was_busy_for_a_moment_excuses_nobody() -> None:
    """A host that has had all the time that a connection may take is measured as before."""
    with dropping_packets(1) as dead:
        outcome = await undisturbed(
            lambda: ask_while_blocked(dead, seconds=60.0, blocking=asyncio.create_task(block(0.2, seconds=0.3)))
        )
    assert "the host is down, or something on the way drops packets" in outcome.silent[0].missing.detail


async def test_time_in_which_the_loop_does_not_run_is_told() -> None:
    """While it is measured, and not before or after; a stopwatch leaves it out."""
    lag = LoopLag()
    with lag.measured():
        assert lag.behind_seconds < BLOCKED_SECONDS
        running, before = lag.stopwatch(), lag.behind_seconds
        began = time.monotonic()
        await block(0.1)
        elapsed = time.monotonic() - began
        behind = lag.behind_seconds - before
        assert behind >= BLOCKED_SECONDS - 0.1
        assert running() <= elapsed - behind + 0.1
        await asyncio.sleep(0.2)
    measured = lag.behind_seconds
    await block(0.0, seconds=0.2)
    assert lag.behind_seconds == measured


async def test_a_limit_counts_the_time_in_which_the_loop_runs() -> None:
    """Work that needs half of the limit is done, though the loop is blocked for longer than it; idleness is ended."""
    lag = LoopLag()
    with lag.measured():
        async with lag.limit(1.0, due=time.monotonic() + 60.0) as limit:
            await block(0.2)
            await asyncio.sleep(0.2)
        assert not limit.expired()
        with pytest.raises(TimeoutError):
            async with lag.limit(0.2, due=time.monotonic() + 60.0):
                await asyncio.sleep(60.0)
