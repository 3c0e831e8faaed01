"""A sweep: find, look twice, look deeper, judge; with agents that fail at every step."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import list_jobs, sweep
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Question, Stage, Step
from shared.answer.words import Kind, Verdict
from shared.errors import InvalidInput, InvalidSettings, NotFound
from shared.missing import Missing, Reason
from shared.wire.snapshot import Exited
from shared.wire.trace import LastIssued, Marks
from tests.build.agents.asking import sweep_agents
from tests.build.agents.fake_agents import (
    JOB,
    FakeAgent,
    answering,
    case_ranks,
    listening,
    make_rank,
    mounts,
    two_nodes,
)

DOWN = AgentAddress(host="node3", url="http://127.0.0.1:9")
"""Nobody listens on the discard port."""


async def test_node_that_is_too_busy_to_list_its_processes_did_not_answer() -> None:
    """There may be ranks on it: that is neither "no ranks were found" nor a job that has ended."""
    late = Missing(source="ranks", reason=Reason.TIMED_OUT, detail="listing the processes takes too long")
    swept = await sweep_agents(FakeAgent("node7", (), missing=(late,)), job=None)
    assert (
        swept.diagnosis.headline
        == "Cannot tell: no rank was seen: node7 had no time to list the processes there, as on an overloaded machine."
    )
    assert [(gap.host, gap.missing.reason) for gap in swept.diagnosis.coverage.missing] == [("node7", Reason.TIMED_OUT)]
    busy, well = two_nodes()
    busy.missing = (late,)

    async def list_nobody(looks: int) -> None:
        if looks > 1:
            busy.ranks = ()

    busy.before_snapshot = list_nobody
    swept = await sweep_agents(busy, well)
    assert all(finding.kind is not Kind.RANK_EXITED for finding in swept.diagnosis.findings)


async def test_one_look_will_do_where_agents_have_watched_all_ranks_stand_still() -> None:
    """By counters and marks, to the last rank, and just now; else there are two looks, and the verdict is the same."""
    now = time.time_ns()
    nodes = watched_nodes(now)
    swept = await sweep_agents(*nodes)
    assert [node.looks for node in nodes] == [1, 1]
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert any("had seen ranks 0-3 stand still" in each.text for each in swept.diagnosis.findings[0].evidence)
    for doubt in (
        {"idle_for_seconds": 1.0},
        {"idle_for_seconds": None},
        {"marks": None},
        {"marks": marks_of(now, still_seconds=2.0)},
        {"marks": marks_of(now - 60 * 10**9, still_seconds=30.0)},
    ):
        nodes = watched_nodes(now, doubt)
        again = await sweep_agents(*nodes)
        assert [node.looks for node in nodes] == [2, 2], doubt
        assert again.diagnosis.findings[0].culprit_ranks == (2,)


def watched_nodes(now_ns: int, of_rank_2: dict[str, Any] | None = None) -> tuple[FakeAgent, FakeAgent]:
    """Two nodes whose agents have watched their ranks for long."""
    seen = {"looked_at_ns": now_ns, "idle_for_seconds": 90.0, "marks": marks_of(now_ns, still_seconds=90.0)}
    ranks = [
        rank.model_copy(update=seen | ((of_rank_2 or {}) if rank.identity.rank == 2 else {}))
        for node in two_nodes()
        for rank in node.ranks
    ]
    return FakeAgent("node1", ranks[:2]), FakeAgent("node2", ranks[2:])


def marks_of(now_ns: int, *, still_seconds: float) -> Marks:
    """Marks that were read just before, of a rank that has stood still for so long."""
    since_ns = now_ns - int(still_seconds * 1e9)
    last = LastIssued(group="0", op="all_reduce", sequence=3, completed=2, issued_at_ns=since_ns, since_ns=since_ns)
    return Marks(read_at_ns=now_ns - 10**9, groups=(last,))


async def test_ids_sort_by_time() -> None:
    """A later diagnosis has a greater id."""
    nodes = two_nodes()
    ids = [(await sweep_agents(*nodes, looks=1)).diagnosis.id for _ in range(3)]
    assert ids == sorted(set(ids))


async def test_every_failure_at_once() -> None:
    """Down, hanging, garbage and half answers beside two good nodes: the verdict comes by the deadline."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    began = time.monotonic()
    async with (
        listening(hang) as hanging,
        listening(answering(b"\x00" * 100)) as garbage,
        listening(answering(b'{"host":', length=500)) as half,
    ):
        swept = await sweep_agents(*two_nodes(), more=(DOWN, hanging, garbage, half), deadline_seconds=4.0)
    assert time.monotonic() - began < 30.0
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    reasons = {each.missing.source: each.missing.reason for each in swept.expected.unanswered}
    assert reasons == {
        DOWN.url: Reason.UNREACHABLE,
        hanging.url: Reason.TIMED_OUT,
        garbage.url: Reason.UNREADABLE,
        half.url: Reason.UNREADABLE,
    }


async def test_node_that_dies_between_the_looks() -> None:
    """Its first look is kept, it is told as unanswered, and its ranks are known."""
    first, second = two_nodes()

    async def die(look: int) -> None:
        if look == 2:
            raise RuntimeError("gone")

    second.before_snapshot = die
    swept = await sweep_agents(first, second)
    assert sorted(str(snapshot.host) for snapshot in swept.snapshots) == ["node1", "node1", "node2"]
    (unanswered,) = swept.expected.unanswered
    assert (unanswered.host, unanswered.ranks) == ("node2", "2-3")


async def test_node_that_fell_silent_since_the_last_sweep() -> None:
    """Ranks known from an earlier answer are told with the node that no longer gives one."""
    nodes = two_nodes()
    before = await sweep_agents(*nodes, looks=1)
    async with make_client(mounts=mounts(nodes[0])) as client:
        after = await sweep(
            Question(job=JOB, looks=1, native=NativePolicy.NEVER),
            [nodes[0].address, nodes[1].address],
            client,
            earlier=before.lists,
        )
    (unanswered,) = after.expected.unanswered
    assert (unanswered.host, unanswered.ranks) == ("node2", "2-3")


async def test_agent_that_stumbles_once_is_asked_again() -> None:
    """A reset while finding is not the end: the agent is tried again with the first look."""
    first, second = two_nodes()
    tries = 0
    good = httpx.ASGITransport(second.app)

    class Stumbling(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise httpx.ReadError("reset")
            return await good.handle_async_request(request)

    async with make_client(mounts={**mounts(first), second.address.url: Stumbling()}) as client:
        swept = await sweep(
            Question(job=JOB, looks=1, native=NativePolicy.NEVER), [first.address, second.address], client
        )
    assert swept.expected.unanswered == ()
    assert len(swept.snapshots) == 2


async def test_unknown_job_names_those_that_are_there() -> None:
    """A misspelt job is not found, and the error says which jobs there are."""
    with pytest.raises(NotFound, match="'tarin'") as caught:
        await sweep_agents(*two_nodes(), job="tarin")
    assert JOB in caught.value.advice


async def test_unknown_job_with_a_silent_agent_cannot_be_told() -> None:
    """It may be on the silent node: no verdict, no error, and a hint at the jobs that are known."""
    swept = await sweep_agents(*two_nodes(), job="tarin", more=(DOWN,))
    assert swept.diagnosis.verdict is Verdict.CANNOT_TELL
    assert swept.diagnosis.findings == ()
    assert any(JOB in step.text for step in swept.diagnosis.next_steps)


async def test_no_ranks_at_all() -> None:
    """Agents without ranks: not found, with what makes a process a rank."""
    with pytest.raises(NotFound, match="no ranks") as caught:
        await sweep_agents(FakeAgent("node1", ()), job=None)
    assert "RANK" in caught.value.advice


async def test_all_agents_down_cannot_be_told() -> None:
    """Nobody answered: nothing is known, nothing is claimed, and the silence is in the answer."""
    swept = await sweep_agents(more=(DOWN,))
    assert swept.diagnosis.verdict is Verdict.CANNOT_TELL
    assert len(swept.expected.unanswered) == 1


async def test_no_agents() -> None:
    """Without agents the settings are wrong, and the advice says which."""
    with pytest.raises(InvalidSettings) as caught:
        await sweep_agents()
    assert "--agents" in caught.value.advice


async def test_several_jobs_and_none_named() -> None:
    """With two jobs on the nodes, the question must name one."""
    other = FakeAgent("node2", [make_rank(0, host="node2", job="other")])
    with pytest.raises(InvalidInput, match="other"):
        await sweep_agents(two_nodes()[0], other, job=None)


async def test_node_where_the_job_has_died_is_looked_at() -> None:
    """Dead ranks are evidence: their node belongs to the job."""
    dead = FakeAgent("node3", (), exited=(Exited(pid=7, sibling_jobs=(JOB,)),))
    await sweep_agents(*two_nodes(), dead)
    assert dead.looks == 2


async def test_two_addresses_of_one_agent_are_one_node() -> None:
    """The same processes under two names are looked at once, not twice as if time had passed."""
    (node, _) = two_nodes()
    alias = AgentAddress(host="alias", url="http://alias:8471")
    async with make_client(mounts={**mounts(node), alias.url: httpx.ASGITransport(node.app)}) as client:
        swept = await sweep(Question(job=JOB, looks=1, native=NativePolicy.NEVER), [node.address, alias], client)
    assert len(swept.snapshots) == 1


async def test_ras_is_asked_of_two_agents_in_each_look() -> None:
    """Each question costs the whole job a round of messages: the nodes of the lowest and the highest rank ask."""
    ranks = case_ranks("all_joined_none_done", range(4), host="n")
    nodes = [FakeAgent(f"node{at}", [make_rank(at, host=f"node{at}", recorder=ranks[at].recorder)]) for at in range(4)]
    await sweep_agents(*nodes)
    assert [[asked["ras"] for asked in node.asked] for node in nodes] == [
        [True, True],
        [False, False],
        [False, False],
        [True, True],
    ]


async def test_look_deeper_at_suspects_only() -> None:
    """Native stacks are asked of those that the verdict wants them of, by pid, on their own node."""
    nodes = two_nodes()
    await sweep_agents(*nodes, native=NativePolicy.SUSPECTS)
    deeper = [asked for node in nodes for asked in node.asked if asked["stacks"] == "native"]
    assert all(asked["pid"] for asked in deeper)
    await sweep_agents(*nodes, native=NativePolicy.ALL)
    asked_pids = [asked["pid"] for node in nodes for asked in node.asked[-1:]]
    assert asked_pids == [[1000, 1001], [1002, 1003]]


async def test_deeper_look_that_fails_is_told() -> None:
    """The node did answer the plain looks: the failure is a part that could not be read."""
    nodes = two_nodes()

    async def fail(look: int) -> None:
        if look > 2:
            raise RuntimeError("no ptrace today")

    nodes[1].before_snapshot = fail
    swept = await sweep_agents(*nodes, native=NativePolicy.ALL)
    assert swept.expected.unanswered == ()
    (missing,) = swept.expected.unreadable
    assert missing.source == nodes[1].address.url
    assert missing.detail.startswith("native stacks")


async def test_deadline_cuts_the_second_look() -> None:
    """Where there is no time to wait, one look has to do."""
    nodes = two_nodes()
    began = time.monotonic()
    await sweep_agents(*nodes, interval_seconds=60.0, deadline_seconds=4.0)
    assert time.monotonic() - began < 30.0
    assert [node.looks for node in nodes] == [1, 1]


async def test_pause_begins_with_the_look_before_it() -> None:
    """A look that takes a while makes the pause after it shorter, by a third of the interval at most."""
    pauses = []
    for seconds in (0.25, 0.6):
        nodes, steps = two_nodes(), list[Step]()
        nodes[1].delay_seconds = seconds
        await sweep_agents(*nodes, interval_seconds=1.2, progress=steps.append)
        pauses += [step.seconds for step in steps if step.stage is Stage.WAITING]
    short, long = pauses
    assert 0.8 < short < 0.95
    assert 0.7 < long <= 0.8  # less what went by since the look; a pause from its begin would be 0.6


async def test_agents_are_told_how_long_they_may_take() -> None:
    """The deadline is passed down, shorter than our own, so that partial answers arrive in time."""
    (node, _) = two_nodes()
    await sweep_agents(node, deadline_seconds=6.0, looks=1)
    assert 0.5 <= float(str(node.asked[0]["timeout"])) < 3.0
    assert (node.asked[0]["job"], node.asked[0]["window"]) == (JOB, 64)


@pytest.mark.parametrize("is_async", [False, True])
async def test_progress_is_told(is_async: bool) -> None:
    """Each step is told, with how many agents have answered; by a function or a coroutine function."""
    steps: list[Step] = []

    async def note_later(step: Step) -> None:
        steps.append(step)

    nodes = two_nodes()
    async with make_client(mounts=mounts(*nodes)) as client:
        await sweep(
            Question(job=JOB, interval_seconds=0.01, native=NativePolicy.NEVER),
            [node.address for node in nodes],
            client,
            progress=note_later if is_async else steps.append,
        )
    stages = list(dict.fromkeys((step.stage, step.look) for step in steps))
    assert stages == [
        (Stage.FINDING, 0), (Stage.LOOKING, 1), (Stage.WAITING, 0), (Stage.LOOKING, 2), (Stage.JUDGING, 0),
    ]  # fmt: skip
    assert max(step.finished for step in steps if step.stage is Stage.LOOKING) == 2


async def test_jobs_are_listed_with_the_silent_agents() -> None:
    """The list of jobs is what the answers tell, and says who did not answer."""
    nodes = two_nodes()
    async with make_client(mounts=mounts(*nodes)) as client:
        found = await list_jobs([*(node.address for node in nodes), DOWN], client)
    (job,) = found.jobs
    assert (job.name, job.ranks, job.hosts) == (JOB, "0-3", ("node1", "node2"))
    assert [each.host for each in found.unanswered] == ["node3"]
