"""A job that has ended: it has, and how, is the answer; nobody is told to look again."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.show.text.waits import waits_of
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.log_events import LogEvent
from shared.wire.snapshot import Exited, Identity, NodeSnapshot
from shared.wire.trace import LastIssued, Marks
from tests.build.agents.fake_agents import WORLD, make_rank
from tests.build.jobs.logged import logs_of


def node(*exited: Exited) -> NodeSnapshot:
    """A look at a node on which nothing of the job runs any more."""
    return NodeSnapshot(host="node1", taken_at_ns=10**18, exited=exited)


def ended(rank: int, *, of: int = 2, attempt: int = 0, job: str = "sim", user: str = "0", **how: object) -> Exited:
    """What an agent remembers of a rank that it saw alive."""
    identity = Identity(job=job, rank=rank, world_size=of, attempt=attempt, host="node1", pid=100 + rank, user=user)
    return Exited.model_validate({"pid": 100 + rank, "identity": identity, **how})


@pytest.mark.parametrize(
    ("exits", "headline"),
    [
        ([{"exit_code": 0}] * 2, "Not hung: it has finished: ranks 0-1 exited with code 0."),
        ([{}] * 2, "Cannot tell: the job has ended, and nobody saw how."),
        (
            [{"exit_code": 0}, {}],
            "Cannot tell: the job has ended, and nobody saw how rank 1 did; rank 0 exited with code 0.",
        ),
    ],
)
def test_job_that_finished_or_of_which_nobody_saw_how_it_ended(exits: list[dict[str, object]], headline: str) -> None:
    """What is not known to have gone well is not said to have; where to read on is no further look."""
    answer = of_dead(*(ended(rank, **how) for rank, how in enumerate(exits)))
    assert (answer.headline, answer.findings) == (headline, ())
    finished = answer.verdict is Verdict.NOT_HUNG
    assert answer.state == ("finished" if finished else "ended") and bool(answer.next_steps) is not finished
    assert answer.coverage.expected == 2


def test_only_the_newest_attempt_counts() -> None:
    """What an earlier attempt died of is not how the job ended."""
    looks = [node(ended(0, signal=9), ended(0, attempt=1, exit_code=0), ended(1, attempt=1, exit_code=0))]
    assert "ranks 0-1 exited with code 0" in diagnose(looks, Expected(job="sim")).headline


@pytest.mark.parametrize("more", [(), (ended(1, job="other"),), (ended(1, user="1001"),)])
def test_a_rank_of_which_nobody_knows_leaves_it_open(more: tuple[Exited, ...]) -> None:
    """It may run where nobody looked."""
    answer = diagnose([node(ended(0, signal=9), *more)], Expected(job="sim", user="0"))
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert answer.headline == "Cannot tell: rank 0 was killed by signal 9 (SIGKILL); of rank 1 nobody knows."


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
        "Died: ranks 0-3 were killed by signal 9 (SIGKILL); which of them ended first is not known; when last seen, "
        "ranks 0-1,3 were in all_reduce #17, rank 2 was done with all_reduce #16 of group default_pg; "
        "they had stood in it for 900 s before that"
    )
    assert (answer.verdict, answer.state) == (Verdict.DIED, None)
    assert (finding.kind, finding.cause) == (Kind.RANK_EXITED, Cause.SIGNAL)
    assert (finding.culprits, finding.victims, finding.ended) == ((), "", "0-3")
    assert finding.group is not None and (finding.group.name, finding.sequence) == ("0", 17)
    assert finding.lasted_seconds == DIED - 100.0
    assert {each.ranks for each in finding.evidence} == {"0-3", "0", "1", "2", "3"}


def test_ranks_whose_memory_told_nothing() -> None:
    """That they were killed is told all the same; of sends nobody knows a number."""
    answer = of_dead(ended(0, signal=9, **marks(None, None, group="pp")), ended(1, signal=6))
    assert answer.headline == (
        "Died: first rank 0 was killed by signal 9 (SIGKILL); rank 1 was killed by signal 6 (SIGABRT); "
        "when last seen, rank 0 was at send of group pp"
    )


@pytest.mark.parametrize(
    ("how", "accused", "sure"),
    [
        ({"signal": 9, "oom_killed": True}, (0,), Certainty.SUPPORTED),
        ({"signal": 11}, (0,), Certainty.SUPPORTED),
        ({"signal": 9}, (0,), Certainty.SUPPORTED),
        ({"exit_code": 3}, (0,), Certainty.SUSPECTED),
        ({"signal": 6, **marks(17, 17)}, (0,), Certainty.SUSPECTED),
        ({"signal": 6, **marks(17, 16)}, (), Certainty.PROVEN),
        ({"signal": 6}, (), Certainty.PROVEN),
        ({"exit_code": 1}, (), Certainty.PROVEN),
        ({"exit_code": 143}, (1,), Certainty.SUSPECTED),
        ({}, (1,), Certainty.SUSPECTED),
    ],
)
def test_rank_that_ended_before_the_others(how: dict[str, object], accused: tuple[int, ...], sure: Certainty) -> None:
    """Named where it ended in its own way; who loses it exits with 1, and a watchdog aborts who has waited."""
    (finding,) = of_dead(ended(0, of=3, **how), ended(1, of=3, exit_code=1), ended(2, of=3, signal=15)).findings
    assert (finding.culprit_ranks, finding.certainty) == (accused, sure)
    assert finding.victims == "" and waits_of(finding) == []


def at(seconds: int) -> dict[str, object]:
    return {"gone_by_ns": seconds * 10**9}


@pytest.mark.parametrize(
    ("exits", "cause"),
    [
        ([{"signal": 15}, {"signal": 15}], Cause.CANCELLED),
        ([{"exit_code": 0}, {"signal": 15}], Cause.CANCELLED),
        ([{"exit_code": 130}, {"signal": 2}], Cause.CANCELLED),
        ([{"signal": 15, **at(100)}, {"signal": 9, **at(130)}], Cause.CANCELLED),
        ([{"signal": 15, **at(100)}, {"exit_code": 1, **at(130)}], Cause.UNKNOWN),
        ([{"signal": 15}, {}], Cause.UNKNOWN),
        ([{"exit_code": 1}, {"exit_code": 1}], Cause.UNKNOWN),
        ([{"exit_code": 1, **marks(17, 16)}, {"signal": 15}], Cause.UNKNOWN),
        ([{"exit_code": 1, **marks(17, 16)}, {"exit_code": 1, **marks(17, 16)}], Cause.UNKNOWN),
    ],
)
def test_job_of_which_nobody_is_known_to_have_ended_first(exits: list[dict[str, object]], cause: Cause) -> None:
    """It was cancelled, or all failed alike, or who failed had waited for another: nobody is named."""
    answer = of_dead(*(ended(rank, **how) for rank, how in enumerate(exits)))
    (finding,) = answer.findings
    assert (answer.verdict, finding.culprits, finding.cause) == (Verdict.DIED, (), cause)


@pytest.mark.parametrize(
    ("ahead", "later", "accused"), [(0, 30, ()), (30, 30, ()), (5, 0, (1,)), (-60, 0, (1,)), (0, 0, (1,))]
)
def test_who_was_killed_on_another_node_may_have_another_clock(
    ahead: int, later: int, accused: tuple[int, ...]
) -> None:
    """Only who lived for longer, too, than those who were asked to end did not heed that."""
    here = ended(0, of=2, signal=15, **at(100))
    there = ended(1, of=2, signal=9, **at(100 + ahead + later))
    assert here.identity is not None and there.identity is not None
    began = {"host": "node2", "started_at": 10.0 + ahead}
    there = there.model_copy(update={"identity": there.identity.model_copy(update=began)})
    here = here.model_copy(update={"identity": here.identity.model_copy(update={"started_at": 10.0})})
    looks = [NodeSnapshot(host="node1", taken_at_ns=10**18, exited=(here,))]
    looks.append(NodeSnapshot(host="node2", taken_at_ns=10**18, exited=(there,)))
    (finding,) = diagnose(looks, Expected(job="sim")).findings
    assert finding.culprit_ranks == accused


def test_job_of_slurm_is_asked_of_slurm() -> None:
    """Whose step was cancelled it knows best."""
    looks = [node(*(ended(rank, job="slurm-4242", signal=15) for rank in range(2)))]
    (finding,) = diagnose(looks, Expected(job="slurm-4242")).findings
    assert "sacct -j 4242 " in (finding.next_steps[0].command or "")


def failed_of(line: str, rank: int) -> LogEvent:
    """What a rank logged of an exception."""
    frame = '  File "/job/train.py", line 40, in step'
    return logs_of(["Traceback (most recent call last):", frame, line], rank=rank).events[-1]


def test_exception_that_a_rank_logged_before_it_ended() -> None:
    """Its agent has read it; not that of who has lost its peer, nor one that a killed rank had got over."""
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer"
    said = ["ValueError: loss is nan at step 3" if rank == 1 else lost for rank in range(4)]
    exits = [ended(rank, of=4, exit_code=1, last_failure=failed_of(line, rank)) for rank, line in enumerate(said)]
    answer = of_dead(*exits)
    (finding,) = answer.findings
    assert (finding.culprit_ranks, finding.cause, finding.certainty) == ((1,), Cause.EXCEPTION, Certainty.SUPPORTED)
    assert answer.headline.startswith("Died: first rank 1 exited with code 1: ValueError: loss is nan at step 3; ")
    assert finding.next_steps[0].text == "read the traceback at the end of train.log"
    assert finding.where is not None and str(finding.where.user) == "step (/job/train.py:40)"
    assert answer.action is not None and "fix what rank 1 raised at step (/job/train.py:40)" in answer.action.text
    killed = ended(2, of=4, signal=9, last_failure=failed_of("KeyError: 'step'", 2))
    (finding,) = of_dead(*exits[:1], ended(1, of=4, signal=15), killed, *exits[3:]).findings
    assert (finding.culprit_ranks, finding.cause) == ((2,), Cause.SIGNAL) and "KeyError" not in finding.summary
    assert finding.where is not None and finding.where.user is None
    line = failed_of(said[1], 1).model_copy(update={"fields": {"raised_file": "a.py", "raised_line": "-"}})
    (finding,) = of_dead(exits[0], ended(1, of=4, exit_code=1, last_failure=line), *exits[2:]).findings
    assert finding.where is not None and finding.where.user is None


def test_exception_that_was_seen_in_an_earlier_look() -> None:
    """Where the agent could not keep the log open."""
    lines = ["Traceback (most recent call last):", "ValueError: loss is nan at step 3"]
    made = [make_rank(rank, job="sim", host="node1") for rank in range(WORLD)]
    seen = {"looked_at_ns": 10**17}
    live = [one.model_copy(update=seen) for one in made]
    live[1] = live[1].model_copy(update={"logs": logs_of(lines, rank=1)})
    gone = (Exited(pid=one.identity.pid or 0, identity=one.identity, exit_code=1) for one in live)
    first = NodeSnapshot(host="node1", taken_at_ns=10**17, ranks=tuple(live))
    (finding,) = diagnose([first, node(*gone)], Expected(job="sim")).findings
    assert (finding.culprit_ranks, finding.cause) == ((1,), Cause.EXCEPTION)


@pytest.mark.parametrize(("left", "first"), [({"exit_code": 0, **marks(16, 16)}, ()), ({"signal": 15}, (0,))])
def test_who_lost_a_peer_that_was_done_is_not_called_the_first(left: dict[str, object], first: tuple[int, ...]) -> None:
    """It exits with 1 out of an operation that the other, which exited with 0, never joined."""
    answer = of_dead(ended(0, exit_code=1, **marks(17, 16, since=DIED - 2.0)), ended(1, **left))
    assert answer.verdict is Verdict.DIED
    assert answer.findings[0].culprit_ranks == first
    assert ("first rank 0" in answer.headline) is bool(first)
