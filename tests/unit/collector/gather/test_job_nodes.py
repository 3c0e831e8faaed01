"""Which silent nodes are told with a job, where it is known on which nodes it runs."""

import pytest

from collector.align.expected import Unanswered
from collector.gather.job_nodes import of_the_job, without_agent, without_ranks
from shared.missing import Missing, Reason


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
