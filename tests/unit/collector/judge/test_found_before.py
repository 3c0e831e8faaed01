"""A hang whose ranks give up and exit: who was named while it ran is named afterwards, and no innocent for exiting."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from collector.align.expected import Expected, FoundHung
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Culprit, Diagnosis, Finding, GroupRef, Place, ProcessEvidence, Where
from shared.answer.words import Act, Cause, Certainty, Kind, Verdict
from shared.wire.snapshot import Exited, RankSnapshot
from tests.build.agents.fake_agents import WORLD, make_rank
from tests.unit.collector.judge.test_ended_jobs import DIED, ended, marks, node

FOUND_AT = DIED - 40
CULPRIT = 2
FOUND = Finding(
    kind=Kind.RANK_NOT_JOINED,
    cause=Cause.USER_CODE,
    certainty=Certainty.PROVEN,
    certainty_reason="records show it",
    culprits=(Culprit(rank=CULPRIT, pid=100 + CULPRIT),),
    victims="0-1,3",
    group=GroupRef(name="0", description="default_pg"),
    sequence=17,
    summary="rank 2 has not joined all_reduce #17",
    evidence=(ProcessEvidence(ranks="2", text="rank 2 is sleeping"),),
    where=Where(user=Place(function="step", file="/job/train.py", line=31), process="sleeping in clock_nanosleep()"),
)
ABORTED = [
    ended(rank, of=WORLD, signal=6, **marks(16 if rank == CULPRIT else 17, 16, since=FOUND_AT - 30))
    for rank in range(WORLD)
]


def judged(exits: Iterable[Exited], found: Finding = FOUND, *, left: tuple[RankSnapshot, ...] = ()) -> Diagnosis:
    hung = FoundHung(made_at=datetime.fromtimestamp(FOUND_AT, UTC).isoformat(), findings=(found,))
    look = node(*exits).model_copy(update={"ranks": left})
    return diagnose([look], Expected(job="sim", found_hung=hung))


def changed(rank: int, **how: object) -> list[Exited]:
    return [one.model_copy(update=how) if number == rank else one for number, one in enumerate(ABORTED)]


def caught_up(exited: Exited) -> Exited:
    """A watchdog that aborts what a rank waits in counts it as completed; the next beat sees the group further."""
    assert exited.last_marks is not None
    groups = tuple(
        mark.model_copy(update={"completed": mark.sequence, "since_ns": (DIED - 2) * 10**9})
        for mark in exited.last_marks.groups
    )
    return exited.model_copy(update={"last_marks": exited.last_marks.model_copy(update={"groups": groups})})


@pytest.mark.parametrize("exits", [ABORTED, [caught_up(one) for one in ABORTED]])
def test_watchdogs_ended_the_job(exits: list[Exited]) -> None:
    """It has died of the hang, and nobody is a victim any more."""
    answer = judged(exits)
    (finding,) = answer.findings
    assert answer.verdict is Verdict.DIED
    assert answer.headline == (
        "Died: rank 2 has not joined all_reduce #17; then ranks 0-3 were killed by signal 6 (SIGABRT)"
    )
    assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.RANK_NOT_JOINED, Cause.USER_CODE, (CULPRIT,))
    assert (finding.certainty, finding.victims, finding.ended) == (Certainty.PROVEN, "", "0-1,3")
    assert finding.evidence[0] == FOUND.evidence[0] and {each.ranks for each in finding.evidence} >= {"0", "1", "3"}
    assert any("before ranks of it ended" in remark for remark in finding.remarks)
    assert finding.where == FOUND.where
    assert answer.action is not None
    assert (answer.action.do, answer.action.places) == (Act.FIX_CODE, ("/job/train.py:31",))


@pytest.mark.parametrize(
    ("exits", "found", "named"),
    [
        pytest.param(changed(0, **marks(18, 17, since=FOUND_AT + 5)), FOUND, (), id="went on"),
        pytest.param([one.model_copy(update={"last_marks": None}) for one in ABORTED], FOUND, (), id="nothing read"),
        pytest.param(changed(CULPRIT, pid=7), FOUND, (), id="other processes"),
        pytest.param(changed(1, signal=11), FOUND, (1,), id="one crashed"),
        pytest.param(changed(1, signal=9), FOUND, (1,), id="one was killed"),
        pytest.param([one.model_copy(update={"signal": 15}) for one in ABORTED], FOUND, (), id="cancelled"),
        pytest.param(ABORTED, FOUND.model_copy(update={"culprits": ()}), (), id="nobody was named"),
    ],
)
def test_what_else_may_have_ended_it(exits: list[Exited], found: Finding, named: tuple[int, ...]) -> None:
    """What was found before is only repeated where nothing else explains the end."""
    answer = judged(exits, found)
    assert [finding.culprit_ranks for finding in answer.findings] == [named]
    assert answer.findings[0].kind is Kind.RANK_EXITED


@pytest.mark.parametrize("left", [CULPRIT, 0])
def test_some_of_its_ranks_have_given_up(left: int) -> None:
    """They have exited because of the hang: that is no fault of theirs, whoever is left."""
    gone = tuple(one for rank, one in enumerate(ABORTED) if rank != left)
    answer = judged(gone, left=(make_rank(left, job="sim", host="node1"),))
    assert answer.verdict is Verdict.HUNG
    assert [finding.culprit_ranks for finding in answer.findings] == [(CULPRIT,)]
