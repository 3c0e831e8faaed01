"""The floors hold what the scorers print: fewer right ones fail, and so does a single wrong one."""

from pathlib import Path

import pytest

from tests.bench.foreign_evidence import FLOORS, complaint, main, score

FOREIGN, INCIDENTS = FLOORS


def scorer(place: Path, name: str, *lines: str) -> None:
    """Put a scorer there that prints these lines."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"print({chr(10).join(lines)!r})\n")


def foreign_line(right: int, wrong: int) -> str:
    """As foreign/score.py prints it."""
    return f"{'total':18}{right:6}{wrong:6}{2:7}"


def incidents_line(right: int, wrong: int) -> str:
    """As incidents/score.py prints it."""
    return f"right {right} of 33 enough, wrong {wrong} of all 53; RIGHT {right}, PARTLY 1, without files 59"


@pytest.mark.parametrize(("more", "wrong", "fails"), [(0, 0, False), (1, 0, False), (-1, 0, True), (1, 1, True)])
def test_floors(more: int, wrong: int, fails: bool, tmp_path: Path) -> None:
    """Of each scorer's own line, by running it."""
    scorer(tmp_path, FOREIGN.scorer, "group right", foreign_line(FOREIGN.right + more, wrong))
    scorer(tmp_path, INCIDENTS.scorer, incidents_line(INCIDENTS.right + more, wrong))
    assert (score(tmp_path, FOREIGN) is not None) == fails
    assert (score(tmp_path, INCIDENTS) is not None) == fails
    assert main([str(tmp_path)]) == int(fails)


def test_a_scorer_that_fails_is_a_failure(tmp_path: Path) -> None:
    """No totals are no good totals."""
    assert score(tmp_path, FOREIGN) == "foreign/score.py printed no totals"
    assert complaint(INCIDENTS, "Traceback (most recent call last):") is not None
