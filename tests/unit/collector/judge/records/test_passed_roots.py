"""Roots as ranks have them in memory: who is named, and where they tell nothing."""

from collections.abc import Mapping

import pytest

from shared.answer.words import Kind
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Awaited, Frame
from tests.build.jobs.four_ranks import trace_without_end
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, live_looks

BROADCAST = Frame("broadcast", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3151)


def broadcasting(
    roots: Mapping[int, int | None], *, looks: int = 2, at: Frame = BROADCAST, calls: str = "broadcast"
) -> list[NodeSnapshot]:
    """Looks at ranks that have all issued a broadcast, as many have before; of some the root is known."""
    job = Job({rank: [Collective(WORLD, "broadcast")] * 4 for rank in roots})
    told = live_looks(job, {rank: Seen((USER, BROADCAST)) for rank in roots}, looks=looks)
    for rank, root in roots.items():
        awaited = Awaited(tid=1000 + rank, at=at, kind="rooted_call", call=calls, root=root)
        known = () if root is None else (awaited,)
        told = with_rank(told, rank, recorder=trace_without_end(job, rank), awaited=known)
    return told


@pytest.mark.parametrize(
    ("roots", "culprits", "said"),
    [
        (
            {0: 0, 1: 0, 2: 2},
            (2,),
            "rank 2 issued broadcast from rank 2 where ranks 0-1 issued broadcast #4 of group default_pg from rank 0",
        ),
        ({0: 1, 1: 0}, (), "disagree on broadcast #4 of group default_pg: rank 0 (broadcast from rank 1) vs. rank 1 ("),
        ({0: 0, 1: None, 2: 2, 3: None}, (), "no side has a majority"),
        ({0: 0, 1: 0, 2: 2, 3: None}, (), "no side has a majority"),
        ({0: 0, 1: 0, 2: 0, 3: 9}, (3,), "rank 3 issued broadcast from group rank 9"),
    ],
    ids=["three", "two", "those who are out of it", "a majority but for one", "none of the group"],
)
def test_the_majority_of_all_members_is_right(
    roots: Mapping[int, int | None], culprits: tuple[int, ...], said: str
) -> None:
    """Who has come out of the operation may have passed either root."""
    (finding,) = judged(broadcasting(roots)).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, culprits)
    assert said in finding.summary
    assert finding.next_steps[0].text.startswith("find out why the roots differ")


@pytest.mark.parametrize(
    "looks",
    [
        broadcasting({0: 0, 1: 0, 2: 2}, looks=1),
        broadcasting({0: 0, 1: 0, 2: 2}, at=BROADCAST._replace(line=7)),
        broadcasting({0: 0, 1: 0, 2: 2}, calls="reduce"),
        broadcasting({0: 0, 1: 0, 2: None}),
    ],
    ids=["looked at once", "memory of another moment", "another operation", "one root"],
)
def test_nobody_is_accused_by_what_tells_nothing(looks: list[NodeSnapshot]) -> None:
    assert all(finding.kind is Kind.STUCK_TOGETHER for finding in judged(looks).findings)


def test_where_all_pass_one_root_nobody_is_told_to_compare_them() -> None:
    (finding,) = judged(broadcasting(dict.fromkeys(range(3), 0))).findings
    assert "every member has issued it with equal sizes and types and one root" in finding.remarks[0]
    assert not any("root" in step.text for step in finding.next_steps)
    (unknown,) = judged(broadcasting({0: 0, 1: 0, 2: None})).findings
    assert unknown.next_steps[0].text.startswith("compare the root (src or dst) that each rank passes to broadcast: ra")
