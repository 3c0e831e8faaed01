"""A job on many nodes: a survey of all, then a look at those that the verdict is about."""

import time
from functools import partial

import pytest

from collector.question import Stage, Step
from shared.answer.words import Verdict
from shared.errors import NotFound
from shared.missing import Reason
from shared.wire.snapshot import Beat, Fds, Process, RankSnapshot
from shared.wire.trace import Trace
from tests.build.agents.asking import sweep_agents
from tests.build.agents.fake_agents import (
    FakeAgent,
    answering,
    case_ranks,
    listening,
    make_rank,
    two_nodes,
)

sweep_many = partial(sweep_agents, survey_above=1)
"""As over many agents."""


def surveys(agent: FakeAgent) -> int:
    """How often an agent was asked for one."""
    return sum("survey" in asked for asked in agent.asked)


def looked_at(rank: RankSnapshot, *, idle_seconds: float | None, stalled_seconds: float = 100.0) -> RankSnapshot:
    """A rank that an agent sees now, whose last operation was issued so long ago."""
    now_ns = time.time_ns()
    assert isinstance(rank.recorder, Trace) and isinstance(rank.process, Process)
    by_ns = now_ns - round(stalled_seconds * 1e9) - max(rank.recorder.created_ns)
    created = type(rank.recorder.created_ns)("q", (at + by_ns for at in rank.recorder.created_ns))
    beat = Beat(at_ns=now_ns, cpu_seconds=1.0, main_switches=7)
    return rank.model_copy(
        update={
            "looked_at_ns": now_ns,
            "idle_for_seconds": idle_seconds,
            "recorder": rank.recorder.model_copy(update={"created_ns": created}),
            "process": rank.process.model_copy(update={"before": beat, "after": beat}),
            "fds": Fds(total=7),
        }
    )


def live_nodes(*, idle_seconds: float | None, stalled_seconds: float = 100.0) -> tuple[FakeAgent, ...]:
    """A node for each rank of a job whose rank 2 has not joined."""
    ranks = case_ranks("missing_rank2", range(4), host="node")
    placed = [
        rank.model_copy(update={"identity": rank.identity.model_copy(update={"host": f"node{rank.identity.rank}"})})
        for rank in ranks
    ]
    return tuple(
        FakeAgent(f"node{i}", [looked_at(rank, idle_seconds=idle_seconds, stalled_seconds=stalled_seconds)])
        for i, rank in enumerate(placed)
    )


async def test_one_survey_does_where_agents_have_watched_the_job_stand_still() -> None:
    """Nobody is asked for a list; the suspect is looked at whole, and its evidence comes from that."""
    nodes = live_nodes(idle_seconds=90.0)
    steps: list[Step] = []
    swept = await sweep_many(*nodes, progress=steps.append, interval_seconds=600.0)
    assert swept.diagnosis.verdict is Verdict.HUNG
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert [surveys(node) for node in nodes] == [1, 1, 1, 1]
    assert nodes[2].asked[-1]["pid"] == [1002]
    assert nodes[2].asked[-1]["window"] == 64
    assert list(dict.fromkeys(step.stage for step in steps)) == [Stage.LOOKING, Stage.LOOKING_CLOSER, Stage.JUDGING]
    whole = [rank for look in swept.snapshots if not look.whole for rank in look.ranks if rank.identity.rank == 2]
    assert isinstance(whole[0].fds, Fds)


async def test_another_survey_is_taken_where_nobody_has_watched() -> None:
    """Twenty seconds after the last operation a rank may be at work still; two surveys tell that it is not."""
    nodes = live_nodes(idle_seconds=None, stalled_seconds=20.0)
    swept = await sweep_many(*nodes)
    assert swept.diagnosis.verdict is Verdict.HUNG
    assert [surveys(node) for node in nodes] == [2, 2, 2, 2]


async def test_verdict_is_that_of_whole_looks() -> None:
    """Same culprit, same certainty, same headline; more was left out."""
    brief = (await sweep_many(*live_nodes(idle_seconds=90.0))).diagnosis
    whole = (await sweep_many(*live_nodes(idle_seconds=90.0), survey_above=100)).diagnosis
    assert brief.headline == whole.headline
    assert [f.certainty for f in brief.findings] == [f.certainty for f in whole.findings]
    assert brief.coverage.answered == whole.coverage.answered == 4


async def test_agents_of_an_earlier_version_look_at_everything() -> None:
    """They know no surveys; they take part all the same."""
    old = FakeAgent("node2", case_ranks("missing_rank2", (2, 3), host="node2"), surveys=False)
    new, _ = two_nodes()
    swept = await sweep_many(new, old)
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert (surveys(new), surveys(old)) == (1, 0)
    assert old.asked[0]["pid"] is None


async def test_small_job_among_many_nodes_is_looked_at_whole() -> None:
    """The survey tells where it is; the other nodes are asked no more."""
    nodes = two_nodes()
    idle = [FakeAgent(f"spare{i}", ()) for i in range(4)]
    swept = await sweep_many(*nodes, *idle, survey_above=3)
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert [node.looks for node in idle] == [1, 1, 1, 1]
    assert [node.looks for node in nodes] == [2, 2]
    assert nodes[0].asked[-1]["pid"] is None


async def test_ranks_of_other_jobs_are_told_but_not_looked_at() -> None:
    """A survey names them, as a list would: the job's name may be wrong."""
    node = FakeAgent("node1", [make_rank(0, host="node1", job="other")])
    with pytest.raises(NotFound) as error:
        await sweep_many(node, FakeAgent("node2", ()))
    assert "other" in (error.value.advice or "")
    assert surveys(node) == 1


async def test_node_that_breaks_in_the_survey_is_told() -> None:
    """Garbage in a table, or no answer: the others are judged."""
    node, _ = two_nodes()
    garbage = b'{"kind":"survey","node":{"host":"x"},"stacks":["{"],"ranks":[]}'
    async with listening(answering(garbage)) as broken:
        swept = await sweep_many(node, more=(broken,))
    (unanswered,) = swept.expected.unanswered
    assert unanswered.host == broken.host
    assert unanswered.missing.reason is Reason.UNREADABLE
    assert swept.diagnosis.coverage.answered == 2


async def test_node_that_dies_before_the_closer_look_is_told() -> None:
    """What its survey said stands."""
    nodes = live_nodes(idle_seconds=90.0)

    async def die(look: int) -> None:
        if look > 1:
            raise ConnectionResetError

    nodes[2].before_snapshot = die
    swept = await sweep_many(*nodes)
    assert swept.diagnosis.findings[0].culprit_ranks == (2,)
    assert any(missing.detail.startswith("a closer look") for missing in swept.expected.unreadable)


async def test_ras_is_asked_of_two_agents_in_the_closer_look() -> None:
    """The first and the last rank's; a survey of thousands must not make each of them ask for the whole job."""
    nodes = live_nodes(idle_seconds=90.0)
    await sweep_many(*nodes)
    assert [any(asked["ras"] for asked in node.asked) for node in nodes] == [True, False, False, True]
