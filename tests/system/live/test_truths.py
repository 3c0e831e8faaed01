"""The judge of the live tests is right itself: what agrees with a truth and what does not."""

from typing import Any, get_args

import pytest

from shared.answer.words import Cause, Kind, Verdict
from tests.system.live.truths import Mode, Truth, all_programs, read_truth


def answer(verdict: str = "hung", culprits: tuple[int, ...] = (2,), **changes: Any) -> dict[str, Any]:
    """Make an answer as `unhang diagnose` gives it about a rank asleep, with `changes` to its finding."""
    finding = {
        "kind": "rank_not_joined",
        "cause": "user_code",
        "certainty": "supported",
        "culprits": [{"rank": rank} for rank in culprits],
        "victims": "0-1,3",
        "where": {"user": {"function": "wait_for_quota"}, "child": ""},
        "evidence": [{"ranks": "0-3"}],
    }
    return {"verdict": verdict, "findings": [{**finding, **changes}]}


def test_a_right_answer_has_nothing_wrong() -> None:
    """All words agree, and so does the exit status."""
    assert Truth.of("asleep_before_collective", "bare").disagreements(answer(), 10) == []


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (answer(), 0, "exit status 0 for hung"),
        (answer(culprits=(1,)), 10, "names innocent ranks 1"),
        (answer(culprits=()), 10, "culprits nobody, not 2"),
        (answer(victims="0-1"), 10, "victims 0-1, not 0-1,3"),
        (answer(kind="rank_exited"), 10, "kind rank_exited"),
        (answer(cause="gil"), 10, "cause gil"),
        (answer(certainty="proven"), 10, "cannot be proven without records"),
        (answer(evidence=[]), 10, "no evidence names culprits 2"),
        (answer(where=None), 10, "the culprit is in None"),
        ({"verdict": "not_hung", "findings": []}, 0, "verdict not_hung, not hung"),
        ({"verdict": "hung", "findings": []}, 10, "has no finding"),
        (answer(verdict="not_hung"), 0, "findings although not_hung"),
    ],
)
def test_each_error_is_told(given: dict[str, Any], status: int, said: str) -> None:
    """One wrong word in an answer is one complaint, in words."""
    assert said in "; ".join(Truth.of("asleep_before_collective", "bare").disagreements(given, status))


@pytest.mark.parametrize("verdict", ["hung", "cannot_tell"])
def test_silence_is_right_where_nothing_can_be_known(verdict: str) -> None:
    """Naming nobody is accepted where the truth says so, and in that mode alone."""
    silent = {"verdict": verdict, "findings": []}
    status = {"hung": 10, "cannot_tell": 12}[verdict]
    assert Truth.of("crossed_groups", "bare").disagreements(silent, status) == []
    assert Truth.of("crossed_groups", "probe").disagreements(silent, status) != []


def test_another_faulty_rank_moves_the_victims_too() -> None:
    """The stated truth is about rank 2; for rank 0 the others are 1 to 3."""
    truth = Truth.of("asleep_before_collective", "bare", 0)
    assert (truth.culprits, truth.victims) == (frozenset({0}), "1-3")


def test_every_truth_uses_the_contract_s_words() -> None:
    """A misspelt kind would never be met, and its test never be right."""
    for program in all_programs():
        assert set(read_truth(program)) <= KEYS, program
        for truth in (Truth.of(program, mode) for mode in get_args(Mode)):
            assert {*truth.verdicts} <= {*Verdict} and {*truth.kinds} <= {*Kind}, program
            assert {*truth.causes} <= {*Cause}, program


KEYS = frozenset(
    """
    verdict kinds causes culprits victims findings where child thread or_silent busy launch ready absent
    imports probe bare
    """.split()
)
