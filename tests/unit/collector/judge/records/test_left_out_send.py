"""A circle of waits through a receive: a send that was always made before, and not this time, names who left it out."""

import pytest

from collector.judge.records import deadlock
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Certainty, Kind
from tests.build.jobs.records import ISSUED, Row, State, judged_records

GROUPS = {"0": range(2), "pp": range(2)}
SENT, RECEIVED = (Row("pp", 1, op=op, peers=(0, 1)) for op in ("send", "recv"))
WAITS_TO_RECEIVE = Row("pp", 1, ISSUED, "recv", peers=(0, 1))


def reduced(step: int, state: State = State.COMPLETED) -> Row:
    return Row("0", step, state)


def passed_on(*, steps: int, sender: list[Row], receiver: list[Row]) -> Diagnosis:
    """Rank 0 has sent and rank 1 has received before each reduction, `steps` times, and then did this."""
    rows = {
        rank: [row for step in range(1, steps + 1) for row in (passing, reduced(step))] + last
        for rank, (passing, last) in enumerate(((SENT, sender), (RECEIVED, receiver)))
    }
    return judged_records(rows, GROUPS)


def left_out(steps: int) -> Diagnosis:
    return passed_on(steps=steps, sender=[reduced(steps + 1, ISSUED)], receiver=[WAITS_TO_RECEIVE])


def test_who_always_sent_before_and_did_not_now_is_named() -> None:
    (finding,) = left_out(4).findings
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.P2P_UNMATCHED, (0,), "1")
    assert finding.certainty is Certainty.SUSPECTED
    assert "rank 0 posted 0 instead of 1 send for rank 1" in finding.remarks[0]


def test_without_the_rule_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlock, "left_out_send", lambda *_: None)
    (finding,) = left_out(4).findings
    assert (finding.kind, finding.culprits) == (Kind.P2P_UNMATCHED, ())


def test_what_was_done_once_is_no_habit() -> None:
    assert not any(finding.culprits for finding in left_out(1).findings)


def test_a_receive_too_many_is_not_the_senders_fault() -> None:
    answer = passed_on(steps=4, sender=[SENT, reduced(5, ISSUED)], receiver=[RECEIVED, WAITS_TO_RECEIVE])
    assert not any(0 in finding.culprit_ranks for finding in answer.findings)


def test_a_habit_that_varies_is_none() -> None:
    twice = [SENT, SENT, reduced(5), SENT, reduced(6), reduced(7, ISSUED)]
    received = [RECEIVED, RECEIVED, reduced(5), RECEIVED, reduced(6), WAITS_TO_RECEIVE]
    assert not any(finding.culprits for finding in passed_on(steps=4, sender=twice, receiver=received).findings)
