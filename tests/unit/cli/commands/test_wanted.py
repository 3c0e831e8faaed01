"""What is asked for on the command line becomes a question that can be answered in its time."""

import pytest

from cli.sources.job_source import Wanted
from collector.question import Question
from collector.show.routes.diagnoses import Options, with_options


@pytest.mark.parametrize(
    ("wanted", "deadline"),
    [
        (Wanted(None), 30.0),
        (Wanted(None, interval_seconds=1.0), 30.0),
        (Wanted(None, interval_seconds=30.0), 57.0),
        (Wanted(None, looks=10), 54.0),
        (Wanted(None, looks=3, interval_seconds=60.0), 147.0),
        (Wanted(None, looks=1, interval_seconds=600.0), 30.0),
        (Wanted(None, looks=10, interval_seconds=600.0), 3600.0),
        (Wanted(None, interval_seconds=30.0, timeout_seconds=20.0), 20.0),
    ],
)
def test_looks_far_apart_get_the_time_that_they_take(wanted: Wanted, deadline: float) -> None:
    """Else there would be one look alone, which tells nothing of motion; who names a deadline gets that one."""
    assert wanted.deadline_seconds == deadline
    question = wanted.question()
    assert question.deadline_seconds == deadline
    if deadline != 20.0 and deadline != 3600.0:
        assert question.deadline_seconds - question.interval_seconds * (question.looks - 1) >= 25.0


@pytest.mark.parametrize(
    ("wanted", "deadline", "patience"),
    [
        (Wanted(None), 30.0, 60.0),
        (Wanted(None, interval_seconds=30.0), 57.0, 60.0),
        (Wanted(None, looks=1, interval_seconds=30.0), 30.0, 60.0),
        (Wanted(None, timeout_seconds=20.0), 20.0, 0.0),
        (Wanted(None, timeout_seconds=20.0, patience_seconds=5.0), 20.0, 5.0),
        (Wanted(None, patience_seconds=5.0), 30.0, 5.0),
    ],
)
def test_collector_understands_what_was_asked_for_as_this_machine_does(
    wanted: Wanted, deadline: float, patience: float
) -> None:
    """Only who names a deadline gives up patience for it: looks far apart do not."""
    here = wanted.question()
    asked = Options.model_validate(wanted.given()) if wanted.given() else None
    there = with_options(Question(patience_seconds=60.0), asked)
    assert (here.deadline_seconds, here.patience_seconds) == (deadline, patience)
    assert (there.deadline_seconds, there.patience_seconds) == (deadline, patience)
