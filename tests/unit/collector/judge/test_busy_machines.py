"""Where a busy machine read too little in time, the answer says that, and what would do."""

from collector.align.expected import Expected, Unanswered
from collector.judge.verdict import diagnose
from collector.looks.next_looks import parts_are_late
from shared.answer.words import Cause, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Process
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
