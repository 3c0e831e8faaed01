"""Which silent nodes are told with a job; and absence accuses only where somebody looked."""

import time
from collections.abc import Sequence

import pytest

from cli.sources.ssh_hosts import see
from cli.sources.ssh_round import HostVisit
from collector.align.expected import Unanswered
from collector.gather.job_nodes import of_the_job, without_agent, without_ranks
from collector.gather.jobs import nodes_without_ranks
from collector.gather.judge_and_stamp import judge
from shared.answer.diagnosis import AbsenceEvidence, Diagnosis
from shared.answer.words import Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, RankList, RankSnapshot
from tests.build.agents.asking import sweep_agents
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks

UNREAD = Missing(source="ranks", reason=Reason.NOT_PERMITTED, detail="some processes could not be read")


def half(local_world_size: int | None = 2) -> tuple[RankSnapshot, ...]:
    """Ranks 0 and 1 of four, on node1; they wait for rank 2, long since."""
    return tuple(
        rank.model_copy(
            update={
                "identity": rank.identity.model_copy(update={"local_world_size": local_world_size}),
                "looked_at_ns": time.time_ns(),
            }
        )
        for rank in case_ranks("missing_rank2", (0, 1), host="node1")
    )


def accused(diagnosis: Diagnosis) -> list[tuple[Kind, Sequence[int], Certainty]]:
    return [(each.kind, each.culprit_ranks, each.certainty) for each in diagnosis.findings]


def assert_only_coverage(diagnosis: Diagnosis) -> None:
    """Nobody is accused, and the gap is told with its ranks."""
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    assert "nobody examined" in diagnosis.headline
    gaps = {gap.ranks for gap in diagnosis.coverage.missing if "it was not examined" in gap.missing.detail}
    assert gaps == {"2-3"}


@pytest.mark.parametrize("survey_above", [0, 64])
@pytest.mark.parametrize("local_world_size", [2, None])
async def test_agents_of_as_many_nodes_as_the_job_needs_make_absence_suspect(
    local_world_size: int | None, survey_above: int
) -> None:
    nodes = (FakeAgent("node1", half(local_world_size)), FakeAgent("node2", ()))
    swept = await sweep_agents(*nodes, survey_above=survey_above)
    assert accused(swept.diagnosis) == [(Kind.RANK_MISSING, (2, 3), Certainty.SUSPECTED)]
    (absence,) = (each for each in swept.diagnosis.findings[0].evidence if isinstance(each, AbsenceEvidence))
    assert absence.text.startswith("ranks 2-3 have no process on any node that answered")


@pytest.mark.parametrize("survey_above", [0, 64])
async def test_agents_of_some_nodes_leave_the_others_to_coverage(survey_above: int) -> None:
    swept = await sweep_agents(FakeAgent("node1", half()), survey_above=survey_above)
    assert_only_coverage(swept.diagnosis)


async def test_an_agent_that_could_not_see_everything_has_not_looked() -> None:
    swept = await sweep_agents(FakeAgent("node1", half()), FakeAgent("node2", (), missing=(UNREAD,)))
    assert_only_coverage(swept.diagnosis)


def test_two_agents_of_one_box_are_one_node() -> None:
    """A second agent on the machine that has ranks tells nothing of another machine."""
    first = RankList(host="node1", ranks=tuple(rank.identity for rank in half()))
    assert nodes_without_ranks([first, RankList(host="node1")], JOB) == 0
    assert nodes_without_ranks([first, RankList(host="node2"), RankList(host="node2")], JOB) == 1


async def test_too_few_nodes_that_answer_accuse_nobody() -> None:
    """Two nodes of one rank each are missing, and one idle node is known."""
    one = tuple(
        rank.model_copy(update={"identity": rank.identity.model_copy(update={"local_world_size": 1})})
        for rank in half()
    )
    swept = await sweep_agents(FakeAgent("node1", one), FakeAgent("node2", ()))
    assert_only_coverage(swept.diagnosis)


async def test_beside_a_rank_that_its_node_lacks_those_of_other_nodes_are_not_accused() -> None:
    """One box of two: rank 1 should be here and is not; of ranks 2 and 3 nobody knows anything."""
    swept = await sweep_agents(FakeAgent("node1", half()[:1]))
    assert [(kind, ranks) for kind, ranks, _ in accused(swept.diagnosis)] == [(Kind.RANK_MISSING, (1,))]


@pytest.mark.parametrize("idle", [True, False])
def test_hosts_over_ssh_accuse_as_agents_do(idle: bool) -> None:
    here = NodeSnapshot(host="node1", taken_at_ns=10**9, ranks=half())
    visits = [HostVisit("node1", (here,)), *([HostVisit("node2", (NodeSnapshot(host="node2"),))] if idle else [])]
    seen = see(JOB, visits)
    diagnosis = judge(seen.snapshots, seen.expected)
    if idle:
        assert accused(diagnosis) == [(Kind.RANK_MISSING, (2, 3), Certainty.SUSPECTED)]
    else:
        assert_only_coverage(diagnosis)


def silent(host: str, ranks: str = "") -> Unanswered:
    """A node that gave nothing."""
    return Unanswered(host=host, missing=Missing(source=host, reason=Reason.UNREACHABLE), ranks=ranks)


@pytest.mark.parametrize(
    ("host", "ranks", "told"),
    [
        ("node7", "", True),
        ("node7.example.org", "", True),
        ("NODE7:8472", "", True),
        ("node70", "", False),
        ("node8", "", False),
        ("node8", "3", True),
        ("10.0.0.7:8471", "", True),
        ("[fe80::1]:8471", "", True),
        ("9front", "", False),
    ],
)
def test_silent_nodes_of_a_job(host: str, ranks: str, told: bool) -> None:
    """Those on which it runs, whatever their domain; those that had ranks of it; and those of which nobody knows."""
    assert bool(of_the_job([silent(host, ranks)], frozenset({"node7.cluster.local"}))) is told


def test_nodes_without_an_agent_are_told_with_what_runs_there() -> None:
    """In an order that does not depend on who named them first."""
    told = without_agent({"n2.example": "pod b", "n1": "pod a", "n3": "pod c"}, ["n1", "N3.example:8471"])
    assert [(each.host, each.missing.reason, each.ranks) for each in told] == [("n2.example", Reason.NOT_FOUND, "")]
    assert "pod b" in told[0].missing.detail
    several = without_agent({"n2": "b", "n1": "a"}, [])
    assert [each.host for each in several] == ["n1", "n2"]


def test_nodes_that_answer_and_have_no_rank() -> None:
    """Those with ranks and those that are silent are told otherwise."""
    nodes = frozenset({"n1", "n2", "n3", "n4"})
    assert without_ranks(nodes, ["n1.example"], ["n3:8471"]) == ("n2", "n4")
