"""What is asked for on the command line becomes a question that can be answered in its time."""

import pytest

from cli.sources.job_source import Wanted


@pytest.mark.parametrize(
    ("wanted", "deadline"),
    [
        (Wanted(None), None),
        (Wanted(None, interval_seconds=1.0), None),
        (Wanted(None, interval_seconds=30.0), 57.0),
        (Wanted(None, looks=10), 54.0),
        (Wanted(None, looks=3, interval_seconds=60.0), 147.0),
        (Wanted(None, looks=1, interval_seconds=600.0), None),
        (Wanted(None, looks=10, interval_seconds=600.0), 3600.0),
        (Wanted(None, interval_seconds=30.0, timeout_seconds=20.0), 20.0),
    ],
)
def test_looks_far_apart_get_the_time_that_they_take(wanted: Wanted, deadline: float | None) -> None:
    """Else there would be one look alone, which tells nothing of motion; who names a deadline gets that one."""
    assert wanted.deadline_seconds == deadline
    assert wanted.given().get("deadline_seconds") == deadline
    question = wanted.question()
    if deadline != 20.0 and deadline != 3600.0:
        assert question.deadline_seconds - question.interval_seconds * (question.looks - 1) >= 25.0
