"""The measure of healthy jobs (`make healthy`) counts what is wrong, and knows what it starts."""

from typing import Any

import pytest

from tests.system.live.healthy.others import others
from tests.system.live.healthy.programs import Program, own_programs
from tests.system.live.healthy.table import Outcome, summary, table

EVALUATES = Program("evaluates", "ours", "Rank 0 evaluates; the others wait.", "", held_by=frozenset({0}))


def look(status: int, *culprits: int, headline: str = "") -> dict[str, Any]:
    """What was said at one look."""
    return {"status": status, "asked_at": 8.1, "headline": headline, "findings": [{"culprits": list(culprits)}]}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (look(0), []),
        (look(11, 0), []),
        (look(12), []),
        (look(1, headline="unhang: no ranks were found"), []),
        (look(10, 0, headline="Hung: rank 0"), ["look 1, 8.1 s: called hung: Hung: rank 0"]),
        (look(11, 1, headline="Slow: rank 1"), ["look 1, 8.1 s: an innocent is named: Slow: rank 1"]),
        (look(1, headline="a bug"), ["look 1, 8.1 s: no answer: a bug"]),
    ],
)
def test_what_is_wrong(said: dict[str, Any], wrong: list[str]) -> None:
    """Hung of a job that works, a culprit who holds up none, and no answer at all."""
    assert list(Outcome(EVALUATES, {"looks": [said], "status": 0}).wrong()) == wrong


def test_a_job_that_failed_is_no_measure() -> None:
    """It was not healthy: it is in the table, and is not counted."""
    good, failed = ({"looks": [look(0), look(10, 0)], "load": 7, "status": status} for status in (0, 1))
    outcomes = [Outcome(EVALUATES, good), Outcome(EVALUATES, failed)]
    assert summary(outcomes).startswith("1 programs, 2 looks: not hung 1, slow 0, cannot tell 0, **hung** 1")
    assert "| 0, 10 (0) | 7 | ended with 1 |" in table(outcomes)


def test_programs() -> None:
    """Forty of them at least, half of them others', of which each says what it does while others wait."""
    ours, theirs = list(own_programs()), list(others())
    assert min(len(ours), len(theirs)) >= 20
    assert len({program.name for program in (*ours, *theirs)}) == len(ours) + len(theirs)
    assert all(program.waits.endswith(".") and "|" not in program.waits for program in (*ours, *theirs))
