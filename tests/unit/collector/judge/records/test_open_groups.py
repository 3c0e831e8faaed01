"""Groups used in opposite orders whose members nobody tells, as where a busy machine was too late with them."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.looks.next_looks import parts_are_late
from shared.answer.words import Certainty, Kind
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import PAIRS, WORLD, Collective, Job, Seen, live_looks

EVERYBODY = (0, 1, 2, 3)
LATE = Missing(source="recorder", reason=Reason.TIMED_OUT, detail="the members of its groups were not read in time")


def crossed(*, of_two: bool = False, without: tuple[int, ...] = EVERYBODY, first: str = "dense") -> list[NodeSnapshot]:
    """After a step, four ranks reduce in one group and rank 2 in another; the members are those of all but `without`.

    `of_two`: these are groups of two ranks, and no rank is in the wrong one.
    """
    begun = [Collective(f"tp{rank // 2}") for rank in EVERYBODY]
    own = {rank: "sparse" if rank == 2 else first for rank in EVERYBODY}
    if of_two:
        own = {rank: f"data{rank % 2}" for rank in EVERYBODY if rank != 3} | {3: WORLD}
    groups = dict(PAIRS) | ({"data0": (0, 2), "data1": (1, 3)} if of_two else {first: EVERYBODY, "sparse": EVERYBODY})
    job = Job({rank: [begun[rank], Collective(WORLD), Collective(own[rank])] for rank in EVERYBODY}, groups)
    looks = live_looks(job, dict.fromkeys(EVERYBODY, Seen()))
    for rank in EVERYBODY:
        trace = job.trace(rank, members=False)  # of the groups that it has used alone
        told = tuple(group.model_copy(update={"members": fold(job.groups[group.name])}) for group in trace.groups)
        update = {"members_missing": LATE} if rank in without else {"groups": told}
        looks = with_rank(looks, rank, recorder=trace.model_copy(update=update))
    return looks


@pytest.mark.parametrize("first", ["dense", "sparse0"], ids=["two names", "a family"])
def test_not_all_issued_what_those_issued_who_were_seen(first: str) -> None:
    looks = crossed(first=first)
    answer = diagnose(looks, Expected(job="sim"))
    (finding,) = answer.findings
    assert (finding.kind, finding.certainty, finding.culprits) == (Kind.RANK_NOT_JOINED, Certainty.SUSPECTED, ())
    assert f"ranks 0-1,3 wait in all_reduce #1 of group {first}" in answer.headline
    assert "rank 2 waits in all_reduce #1 of group sparse" in answer.headline
    assert ("0-3", LATE) in [(gap.ranks, gap.missing) for gap in answer.coverage.missing]
    assert parts_are_late(looks, Expected(job="sim"))


@pytest.mark.parametrize(
    ("without", "kind", "culprits"),
    [
        ((), Kind.ORDER_INVERSION, (2,)),
        ((2,), Kind.ORDER_INVERSION, (2,)),
        ((0, 1), Kind.ORDER_INVERSION, (2,)),
        ((0, 1, 3), Kind.RANK_NOT_JOINED, ()),
    ],
    ids=["all tell", "who is alone waits for the others", "one of several tells", "these may be all"],
)
def test_members_that_some_tell(without: tuple[int, ...], kind: Kind, culprits: tuple[int, ...]) -> None:
    (finding,) = diagnose(crossed(without=without), Expected(job="sim")).findings
    assert (finding.kind, finding.culprit_ranks) == (kind, culprits)


def test_siblings_have_members_of_their_own() -> None:
    """Ranks 0 and 2 are all of one such group: nobody else can be lacking there."""
    (finding,) = diagnose(crossed(of_two=True), Expected(job="sim")).findings
    assert finding.kind is not Kind.STUCK_TOGETHER or finding.victims == "0-3"
