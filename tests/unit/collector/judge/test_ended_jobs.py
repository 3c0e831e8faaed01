"""A job that has ended: it has, and how, is the answer; nobody is told to look again."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from shared.wire.snapshot import Exited, Identity, NodeSnapshot


def node(*exited: Exited) -> NodeSnapshot:
    """A look at a node on which nothing of the job runs any more."""
    return NodeSnapshot(host="node1", taken_at_ns=10**18, exited=exited)


def ended(rank: int, *, of: int = 2, attempt: int = 0, job: str = "sim", user: str = "0", **how: object) -> Exited:
    """What an agent remembers of a rank that it saw alive."""
    identity = Identity(job=job, rank=rank, world_size=of, attempt=attempt, host="node1", pid=100 + rank, user=user)
    return Exited.model_validate({"pid": 100 + rank, "identity": identity, **how})


def test_a_job_of_which_all_ranks_have_exited() -> None:
    """With their exit codes; no finding, and no advice to look again."""
    answer = diagnose([node(ended(0, signal=15), ended(1, exit_code=3))], Expected(job="sim"))
    assert (answer.verdict, answer.state, answer.next_steps) == (Verdict.NOT_HUNG, "finished", ())
    assert answer.headline == "Not hung: it has ended: rank 0 killed by signal 15; rank 1 exited with code 3."
    assert answer.coverage.expected == 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"exit_code": 0}, "ranks 0-1 exited with code 0"),
        ({"signal": 9, "oom_killed": True}, "ranks 0-1 OOM-killed"),
        ({}, "ranks 0-1 exited, and nobody saw how"),
    ],
)
def test_how_they_ended(how: dict[str, object], said: str) -> None:
    """Ranks that ended alike are told together."""
    answer = diagnose([node(ended(0, **how), ended(1, **how))], Expected(job="sim"))
    assert said in answer.headline


def test_only_the_newest_attempt_counts() -> None:
    """What an earlier attempt died of is not how the job ended."""
    looks = [node(ended(0, signal=9), ended(0, attempt=1, exit_code=0), ended(1, attempt=1, exit_code=0))]
    assert "ranks 0-1 exited with code 0" in diagnose(looks, Expected(job="sim")).headline


@pytest.mark.parametrize("more", [(), (ended(1, job="other"),), (ended(1, user="1001"),)])
def test_a_rank_of_which_nobody_knows_leaves_it_open(more: tuple[Exited, ...]) -> None:
    """It may run where nobody looked."""
    answer = diagnose([node(ended(0, exit_code=0), *more)], Expected(job="sim", user="0"))
    assert answer.verdict is Verdict.CANNOT_TELL
