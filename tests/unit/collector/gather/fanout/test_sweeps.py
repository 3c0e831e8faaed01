"""Sweeps over real sockets with agents that hang, die or are stopped on the way: a verdict comes by the deadline."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi import Response

from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import sweep
from collector.gather.swept import Sweep
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Question, Stage, Step
from shared.answer.words import Kind, Verdict
from shared.missing import Reason
from tests.build.agents.agent_process import agent_process
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks
from tests.build.agents.served_agents import served

pytestmark = pytest.mark.steady

CASE = "missing_rank2"
DEADLINE_SECONDS = 3.0
MARGIN_SECONDS = 30.0
"""For judging, on a busy machine. Who hangs does so for longer."""


class HangingAgent(FakeAgent):
    """Answers well up to some stage, and then no more."""

    def __init__(self, host: str, ranks: Sequence[int], *, stage: Stage, look: int) -> None:
        self.stage = stage
        super().__init__(host, case_ranks(CASE, ranks, host=host))

        async def hang(asked: int) -> None:
            deeper = self.asked[-1]["stacks"] == "native"
            if (deeper and stage is Stage.LOOKING_DEEPER) or (stage is Stage.LOOKING and asked >= look):
                await asyncio.sleep(600)

        self.before_snapshot = hang

    async def _list(self) -> Response:
        if self.stage is Stage.FINDING:
            await asyncio.sleep(600)
        return await super()._list()


async def sweep_in_time(
    agents: Sequence[AgentAddress],
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
    interval_seconds: float = 0.2,
    survey_above: int = 1000,
    native: NativePolicy = NativePolicy.ALL,
    progress: Callable[[Step], None] | None = None,
) -> Sweep:
    """Sweep, and hold it to its deadline."""
    question = Question(
        job=JOB,
        deadline_seconds=deadline_seconds,
        interval_seconds=interval_seconds,
        survey_above=survey_above,
        native=native,
    )
    began = time.monotonic()
    async with make_client() as client:
        swept = await sweep(question, agents, client, progress=progress)
    assert time.monotonic() - began < deadline_seconds + MARGIN_SECONDS
    return swept


def at(host: str, url: str) -> AgentAddress:
    """An address by any name."""
    return AgentAddress(host=host, url=url)


STAGES = {
    "find": (Stage.FINDING, 0),
    "first look": (Stage.LOOKING, 1),
    "second look": (Stage.LOOKING, 2),
    "deeper": (Stage.LOOKING_DEEPER, 0),
}


@pytest.mark.parametrize(("stage", "look"), STAGES.values(), ids=STAGES.keys())
async def test_an_agent_that_hangs_costs_its_own_part(stage: Stage, look: int) -> None:
    """In whatever stage it is: the others' evidence is judged by the deadline, and the silent node is told."""
    well, hanging = (
        FakeAgent("node2", case_ranks(CASE, (2, 3), host="node2")),
        HangingAgent("node1", (0, 1), stage=stage, look=look),
    )
    with served(well) as first, served(hanging) as second:
        swept = await sweep_in_time([at("node1", second), at("node2", first)])
    culprits = {rank for finding in swept.diagnosis.findings for rank in finding.culprit_ranks}
    assert culprits <= {2}
    told = [gap.missing for gap in swept.diagnosis.coverage.missing if gap.missing.source == second]
    assert {missing.reason for missing in told} == {Reason.TIMED_OUT}


@pytest.mark.parametrize(("stage", "look"), STAGES.values(), ids=STAGES.keys())
async def test_where_all_agents_hang_the_verdict_still_comes(stage: Stage, look: int) -> None:
    """With what is known: nothing, or the looks before."""
    with ExitStack() as stack:
        agents = [
            at(f"node{n}", stack.enter_context(served(HangingAgent(f"node{n}", ranks, stage=stage, look=look))))
            for n, ranks in ((1, (0, 1)), (2, (2, 3)))
        ]
        swept = await sweep_in_time(agents)
    if stage is Stage.FINDING or look == 1:
        assert swept.diagnosis.verdict is Verdict.CANNOT_TELL
        assert swept.diagnosis.findings == ()
        assert len(swept.expected.unanswered) == 2
    else:
        assert {rank for finding in swept.diagnosis.findings for rank in finding.culprit_ranks} <= {2}
        assert swept.diagnosis.coverage.seen == 4


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=lambda end: end.name)
@pytest.mark.parametrize("dying", ["node1", "node2"])
async def test_a_node_that_dies_between_the_looks(dying: str, end: signal.Signals) -> None:
    """Its first look is evidence and is kept; that it is silent now accuses none of its ranks."""
    with agent_process(CASE, (0, 1), host="node1") as one, agent_process(CASE, (2, 3), host="node2") as other:
        urls = {"node1": one[0], "node2": other[0]}
        pids = {"node1": one[1], "node2": other[1]}
        sent: list[int] = []

        def kill(step: Step) -> None:
            if step.stage is Stage.WAITING and not sent:
                sent.append(pids[dying])
                os.kill(pids[dying], end)

        agents = [at(host, url) for host, url in urls.items()]
        swept = await sweep_in_time(
            agents,
            deadline_seconds=8.0,
            interval_seconds=0.5,
            native=NativePolicy.NEVER,
            progress=kill,
        )
    assert sent
    (unanswered,) = swept.expected.unanswered
    assert (unanswered.host, unanswered.ranks) == (dying, "0-1" if dying == "node1" else "2-3")
    assert any(gap.host == dying for gap in swept.diagnosis.coverage.missing)
    assert swept.diagnosis.coverage.seen == 4
    for finding in swept.diagnosis.findings:
        assert finding.culprit_ranks == (2,)
        assert finding.kind is Kind.RANK_NOT_JOINED


async def test_an_address_that_leads_to_another_node_does_not_hide_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server has node1's address for node3: node3 was not asked, and its ranks are not said to be gone."""
    real = socket.getaddrinfo

    def wrong(host: str | bytes | None, *arguments: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host in ("node1", b"node1", "node3", b"node3") else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", wrong)
    node1 = FakeAgent("node1", case_ranks(CASE, (0, 1), host="node1"))
    with served(node1) as url:
        port = url.rpartition(":")[2]
        swept = await sweep_in_time([at(host, f"http://{host}:{port}") for host in ("node1", "node3")])
    (unanswered,) = swept.expected.unanswered
    assert unanswered.host == "node3"
    assert "leads to 'node1'" in unanswered.missing.detail
    assert Kind.RANK_MISSING not in {finding.kind for finding in swept.diagnosis.findings}


async def test_names_that_no_server_answers_hold_up_neither_other_names_nor_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Look-ups that hang would fill every thread that asyncio has for them."""
    real = socket.getaddrinfo
    ended = threading.Event()

    def dead(host: str | bytes | None, *arguments: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.endswith(".dead"):
            ended.wait(60.0)
        return real("127.0.0.1" if name.endswith(".alive") else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", dead)
    try:
        with served(FakeAgent("node1", case_ranks(CASE, range(4), host="node1"))) as url:
            names = [at(f"n{n}", f"http://n{n}.dead:8471") for n in range(80)]
            swept = await sweep_in_time(
                [*names, at("node1", url.replace("127.0.0.1", "node1.alive"))], deadline_seconds=8.0
            )
    finally:
        ended.set()
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert {each.missing.detail[:35] for each in swept.expected.unanswered} == {"DNS lookup failed: no answer within"}
    assert len(swept.expected.unanswered) == 80
