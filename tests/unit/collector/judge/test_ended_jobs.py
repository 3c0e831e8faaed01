"""A job that has ended: it has, and how, is the answer; nobody is told to look again."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Kind, Verdict
from shared.wire.snapshot import Exited, Identity, NodeSnapshot
from shared.wire.trace import LastIssued, Marks


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


DIED = 1_000
"""When ranks ended, in seconds."""


def marks(sequence: int | None, completed: int | None, *, since: float = 100.0, group: str = "0") -> dict[str, object]:
    """What an agent remembers of a rank's last operation, and when the rank had ended."""
    last = LastIssued(
        group=group,
        description="default_pg" if group == "0" else "",
        op="all_reduce" if sequence is not None else "send",
        sequence=sequence,
        completed=completed,
        issued_at_ns=int(since * 1e9),
        since_ns=int(since * 1e9),
    )
    return {"last_marks": Marks(read_at_ns=DIED * 10**9, groups=(last,)), "gone_by_ns": DIED * 10**9}


def of_dead(*exited: Exited) -> Diagnosis:
    return diagnose([node(*exited)], Expected(job="sim"))


def test_what_each_rank_of_a_killed_job_did_last() -> None:
    """In one sentence, by group; a signal that came to all of them accuses nobody."""
    waiting = [ended(rank, of=4, signal=9, **marks(17, 16)) for rank in (0, 1, 3)]
    answer = of_dead(*waiting, ended(2, of=4, signal=9, **marks(16, 16)))
    (finding,) = answer.findings
    assert answer.headline == (
        "Not hung: it has ended: ranks 0-3 killed by signal 9; when last seen, ranks 0-1,3 were in all_reduce #17, "
        "rank 2 was done with all_reduce #16 of group default_pg."
    )
    assert (answer.verdict, answer.state, finding.kind, finding.cause) == (
        Verdict.NOT_HUNG,
        "finished",
        Kind.RANK_EXITED,
        Cause.SIGNAL,
    )
    assert finding.culprits == () and finding.victims == "0-3"
    assert finding.group is not None and (finding.group.name, finding.sequence) == ("0", 17)
    assert finding.lasted_seconds == DIED - 100.0
    assert {each.ranks for each in finding.evidence} == {"0-3", "0", "1", "2", "3"}


def test_ranks_whose_memory_told_nothing() -> None:
    """That they were killed is told all the same; of sends nobody knows a number."""
    answer = of_dead(ended(0, signal=9, **marks(None, None, group="pp")), ended(1, signal=6))
    assert answer.headline == (
        "Not hung: it has ended: rank 0 killed by signal 9; rank 1 killed by signal 6; "
        "when last seen, rank 0 was at send of group pp."
    )


@pytest.mark.parametrize(
    ("how", "accused"),
    [
        ({"signal": 9, "oom_killed": True}, (0,)),
        ({"signal": 11}, (0,)),
        ({"signal": 9}, (0,)),
        ({"signal": 6}, ()),
    ],
)
def test_rank_that_died_before_the_others(how: dict[str, object], accused: tuple[int, ...]) -> None:
    """Named where the others ended otherwise; an abort may be a watchdog's."""
    (finding,) = of_dead(ended(0, of=3, **how), ended(1, of=3, exit_code=1), ended(2, of=3, signal=15)).findings
    assert finding.culprit_ranks == accused


@pytest.mark.parametrize(
    "exits",
    [
        [{"signal": 15}, {"signal": 15}],
        [{"signal": 2}, {"exit_code": 1}],
        [{"exit_code": 1}, {"exit_code": 1}],
        [{"exit_code": 1, **marks(17, 17)}, {"exit_code": 1, **marks(17, 17)}],
        [{"exit_code": 1, **marks(17, 16, since=DIED - 10)}, {"exit_code": 1, **marks(17, 16)}],
        [{"exit_code": 0, **marks(17, 16)}, {"exit_code": 0, **marks(17, 16)}],
        [{"signal": 15, "gone_by_ns": 100 * 10**9}, {"signal": 9, "gone_by_ns": 130 * 10**9}],
    ],
)
def test_job_that_was_ended_or_failed_as_jobs_do(exits: list[dict[str, object]]) -> None:
    """Somebody ended it, or its launcher has said what was wrong: there is no finding."""
    assert of_dead(*(ended(rank, **how) for rank, how in enumerate(exits))).findings == ()


def test_job_that_timed_out_in_an_operation() -> None:
    """Gloo's ranks raise, and exit with a code; they had waited for long."""
    (finding,) = of_dead(*(ended(rank, exit_code=1, **marks(17, 16)) for rank in (0, 1))).findings
    assert (finding.culprits, finding.lasted_seconds) == ((), 900.0)
