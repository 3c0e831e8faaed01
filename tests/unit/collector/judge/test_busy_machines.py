"""Where a busy machine read too little in time, the answer says that, and what would do."""

import pytest

from collector.align.expected import Expected, Unanswered
from collector.judge.verdict import diagnose
from collector.looks.next_looks import parts_are_late
from shared.answer.diagnosis import MotionEvidence
from shared.answer.words import Cause, Certainty, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Stacks
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, Seen

LATE = Missing(source="stacks", reason=Reason.TIMED_OUT, detail="py-spy had not finished after 4.0 s")
NO_RECORD = Missing(source="recorder", reason=Reason.NOT_ENABLED)


def test_what_was_not_read_in_time_is_told() -> None:
    looks = looks_without({2: Seen((USER,))})
    for rank in range(4):
        looks = with_rank(looks, rank, recorder=NO_RECORD, stacks=LATE)
    assert parts_are_late(looks, Expected(job="sim"))
    answer = diagnose(looks, Expected(job="sim"))
    assert answer.verdict is Verdict.CANNOT_TELL
    assert "the machine is overloaded" in answer.headline
    assert "stacks of ranks 0-3" in answer.headline
    assert answer.next_steps[0].command == "unhang diagnose --timeout 180 -- sim"
    for rank in range(4):
        looks = with_rank(looks, rank, process=LATE, looked_at_ns=None)
    assert parts_are_late(looks, Expected(job="sim")), "nothing was read at all, which is worth a longer look, too"
    assert "did not read process of ranks 0-3" in diagnose(looks, Expected(job="sim")).headline


def test_one_rank_that_was_late_is_worth_another_look() -> None:
    looks = with_rank(looks_without({2: Seen((USER,))}), 3, stacks=LATE)
    assert parts_are_late(looks, Expected(job="sim"))
    assert not parts_are_late(looks_without({2: Seen((USER,))}), Expected(job="sim"))


def test_an_agent_that_had_no_time_at_all() -> None:
    late = Missing(source="agent", reason=Reason.TIMED_OUT, detail="the collector was too busy to read the answer")
    expected = Expected(unanswered=(Unanswered(host="node1", missing=late),))
    answer = diagnose((), expected)
    assert answer.headline == (
        "Cannot tell: no rank was seen: node1 had no time to list the processes there, as on an overloaded machine."
    )
    assert answer.next_steps[0].command == "unhang diagnose --timeout 180"


def test_where_an_agent_is_silent_no_files_are_spoken_of() -> None:
    silent = Missing(source="agent", reason=Reason.TIMED_OUT, detail="no answer within 5.0 s")
    answer = diagnose((), Expected(job="sim", unanswered=(Unanswered(host="node1", missing=silent),)))
    assert answer.action is not None
    assert "directory" not in repr((answer.action, answer.next_steps))


def test_a_rank_that_the_kernel_holds_is_no_sign_of_load() -> None:
    looks = looks_without({2: Seen((USER,), state="D")})
    looks = with_rank(looks, 2, stacks=LATE)
    assert not parts_are_late(looks, Expected(job="sim"))


def test_ranks_that_were_not_read_are_not_among_all_that_wait() -> None:
    """What they do is not known, so nobody is stuck together with them, however long the others have waited."""
    process = Missing(source="process", reason=Reason.TIMED_OUT)
    looks = looks_without({}, interval_seconds=70.0)
    for rank in range(4):
        looks = with_rank(looks, rank, recorder=NO_RECORD)
    assert diagnose(looks, Expected(job="sim")).verdict is Verdict.HUNG
    unread = with_rank(looks, 3, stacks=LATE, process=process)
    assert diagnose(unread, Expected(job="sim")).verdict is Verdict.CANNOT_TELL
    elsewhere = with_rank(looks_without({3: Seen((USER,))}, interval_seconds=70.0)[1:], 3, recorder=NO_RECORD)
    assert diagnose([unread[0], *elsewhere], Expected(job="sim")).verdict is Verdict.CANNOT_TELL
    unended = looks_without({}, interval_seconds=28.0)
    for rank in range(4):
        unended = with_rank(unended, rank, recorder=NO_RECORD)
    unended = with_rank(unended, 3, stacks=LATE, process=process, looked_at_ns=None)
    assert diagnose(unended, Expected(job="sim")).verdict is Verdict.CANNOT_TELL


def test_a_tracer_that_comes_and_goes_holds_nobody() -> None:
    """Another `unhang`, or py-spy, stops a rank for a moment; a debugger is there in every look."""
    looks = looks_without({2: Seen((USER,))}, interval_seconds=70.0)
    process = next(rank.process for rank in looks[1].ranks if rank.identity.rank == 2)
    assert isinstance(process, Process)
    traced = process.model_copy(update={"state": "t", "tracer_pid": 236})
    last = with_rank(looks[1:], 2, process=traced)
    (passing,) = diagnose([looks[0], *last], Expected(job="sim")).findings
    (staying,) = diagnose([*with_rank(looks[:1], 2, process=traced), *last], Expected(job="sim")).findings
    assert (passing.cause, staying.cause) == (Cause.USER_CODE, Cause.DEBUGGER)


def long_looks(*, seconds: float = 8.0, cpu: float = 0.0, wakes: int = 0, **told: object) -> list[NodeSnapshot]:
    """Looks that take so long and follow each other at once; rank 2, in user code, uses so much within each."""

    def of(rank: RankSnapshot, at: int) -> RankSnapshot:
        begun = (rank.looked_at_ns or 0) + int(at * 1.04 * seconds * 1e9)
        mine = rank.identity.rank == 2
        before, after = (
            Beat(
                at_ns=begun + int(end * seconds * 1e9),
                cpu_seconds=(at + end) * cpu * mine,
                main_cpu_seconds=(at + end) * cpu * mine,
                main_switches=(at + end) * wakes * mine,
            )
            for end in (0, 1)
        )
        assert isinstance(rank.process, Process)
        process = rank.process.model_copy(update={"before": before, "after": after} | (told if mine else {}))
        return rank.model_copy(update={"looked_at_ns": begun, "process": process})

    looks = looks_without({2: Seen((USER,))}, interval_seconds=0.0, after_seconds=30.0)
    return [
        each.model_copy(update={"ranks": tuple(of(rank, at) for rank in each.ranks)}) for at, each in enumerate(looks)
    ]


@pytest.mark.parametrize(
    ("used", "verdict", "says"),
    [
        ({}, Verdict.HUNG, "has not joined"),
        ({"cpu": 0.55}, Verdict.SLOW, "uses 7% of a CPU"),
        ({"cpu": 0.08, "state": "R", "syscall": None}, Verdict.SLOW, "wants a CPU and gets 1% of one"),
        ({"cpu": 0.08, "state": "T"}, Verdict.HUNG, "stopped by a signal"),
        ({"wakes": 9}, Verdict.HUNG, "has not joined"),
        ({"wakes": 80}, Verdict.CANNOT_TELL, "have waited for rank 2"),
        ({"seconds": 0.9}, Verdict.CANNOT_TELL, "have waited for rank 2"),
    ],
    ids=["still", "starved", "runnable", "stopped", "wakes now and then", "wakes", "hardly seen"],
)
def test_what_a_rank_does_within_a_look_that_takes_seconds_counts(
    used: dict[str, object], verdict: Verdict, says: str
) -> None:
    """Of real answers: a rank that unpickled, with 7 % of a CPU, was "proven" to stand still between such looks."""
    answer = diagnose(long_looks(**used), Expected(job="sim"))  # type: ignore[arg-type]
    assert (answer.verdict, says in answer.headline) == (verdict, True), answer.headline


@pytest.mark.parametrize(("native", "motion"), [(False, Verdict.CANNOT_TELL), (True, Verdict.HUNG)])
def test_reading_native_frames_wakes_a_rank_and_is_no_motion(native: bool, motion: Verdict) -> None:
    looks = long_looks(wakes=12)
    stacks = next(rank.stacks for rank in looks[0].ranks if rank.identity.rank == 2)
    assert isinstance(stacks, Stacks)
    read = with_rank(looks, 2, stacks=stacks.model_copy(update={"native": native}))
    assert diagnose(read, Expected(job="sim")).verdict is motion


def test_one_look_that_came_to_no_end_blames_nobody() -> None:
    """Of a real answer: a parameter server waited by design, and what its trainer did was not read to the end."""
    looks = [each.model_copy(update={"idle_for_seconds": 7.0}) for each in looks_without({2: Seen((USER,))})[0].ranks]
    node = NodeSnapshot(host="node-a", ranks=tuple(looks))
    only = with_rank([node], 2, stacks=LATE)
    for rank in range(4):
        only = with_rank(only, rank, recorder=NO_RECORD)
    answer = diagnose(only, Expected(job="sim"))
    assert answer.verdict is Verdict.CANNOT_TELL
    assert "rank 2 was not read to the end" in answer.headline
    assert answer.next_steps[0].command == "unhang diagnose --timeout 180 -- sim"


def test_the_evidence_says_how_much_of_the_time_was_compared() -> None:
    looks = looks_without({2: Seen((USER,))}, interval_seconds=20.0, after_seconds=600.0)
    process = next(rank.process for rank in looks[0].ranks if rank.identity.rank == 2)
    assert isinstance(process, Process) and process.before is not None
    later = process.before.model_copy(update={"at_ns": process.before.at_ns + 15_000_000_000})
    first = with_rank(looks[:1], 2, process=process.model_copy(update={"before": None, "after": later}))
    (finding,) = diagnose([*first, *looks[1:]], Expected(job="sim")).findings
    said = [each.text for each in finding.evidence if isinstance(each, MotionEvidence)]
    assert said and said[0].startswith("between looks 20.0 s apart, of which 5.0 s could be compared, ranks 0-3 stood")
    assert finding.certainty is Certainty.PROVEN


@pytest.mark.parametrize(("state", "verdict"), [("R", Verdict.CANNOT_TELL), ("S", Verdict.HUNG)])
def test_a_rank_that_was_seen_once_and_ran_may_be_at_work(state: str, verdict: Verdict) -> None:
    """The machine had time for one look: who was on a CPU then was not seen to stand still, as the others were."""
    (one, *_) = looks_without({2: Seen((USER,), state=state)}, after_seconds=70.0)
    ranks = (r.model_copy(update={"idle_for_seconds": None if r.identity.rank == 2 else 7.0}) for r in one.ranks)
    assert diagnose([one.model_copy(update={"ranks": tuple(ranks)})], Expected(job="sim")).verdict is verdict
