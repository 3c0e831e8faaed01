"""Step 10: what to do or switch on to know more, where no finding says it."""

import math
from collections.abc import Iterator, Sequence

from collector.align.observations import Observations
from collector.align.wait_states import WaitState
from collector.judge.report.advice import advice_of_lines
from collector.judge.report.headline import Interpretation
from collector.judge.report.next_steps import about_job, record_next_time
from shared.answer.diagnosis import NextStep
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.missing import Missing
from shared.plural import either
from shared.rank_sets import ranks_in_words

_LOOK_AGAIN_SECONDS = 30
_MOST_SECONDS = 600
"""The longest pause or patience that is worth suggesting."""
_FOR_THE_LOOKS_SECONDS = 30
_ON_BUSY_MACHINES = 180
"""Twice what there usually is with all patience."""

_MORE_FILES = (
    "add what other ranks left: flight-recorder dumps, stacks, or the logs of all ranks and of the launcher; "
    "if the job still hangs, take them now: `unhang diagnose` on its nodes"
)


@costs_itself(lambda reading, observations: ())
def steps_to_know_more(reading: Interpretation, observations: Observations) -> tuple[NextStep, ...]:
    """What to do or switch on where no finding says it."""
    if reading.verdict is not Verdict.CANNOT_TELL:
        seems = "if it seems to stand still nevertheless, look again, with more time between the looks"
        return (_further_apart(seems, observations),) if observations.roster.live and reading.state == "running" else ()
    steps = [_where_to_look(reading.unseen, observations) if reading.unseen else _again(reading, observations)]
    steps = [*_unread_in_c(observations), *steps, *advice_of_lines(observations)]
    if not observations.traces:
        steps += record_next_time(observations)
    return tuple(steps)


def _unread_in_c(observations: Observations) -> Iterator[NextStep]:
    """Whoever may wait in C for other ranks, and why nobody could read what for; the reason says what to do."""
    for view in observations.roster.present():
        missing = [look.stacks for look in view.looks if isinstance(look.stacks, Missing)]
        if missing and view.stacks is not None and observations.state(view.rank) is WaitState.UNKNOWN:
            yield NextStep(text=f"rank {view.rank} may wait for others in C: {missing[-1].detail}")
            return


def _where_to_look(ranks: Sequence[int], observations: Observations) -> NextStep:
    who, job = ranks_in_words(ranks), observations.roster.job
    if observations.roster.live:
        text = f"examine {who}, too: ask a collector, or all nodes of the job over ssh"
        return about_job(text, "unhang", "diagnose", "--ssh", "--hosts", "NODES", job=job)
    text = f"examine {who}, too: add {either(ranks, 'its', 'their')} dumps, stacks or logs to the directory"
    return about_job(text, "unhang", "diagnose", job=job)


def _again(reading: Interpretation, observations: Observations) -> NextStep:
    """The next question, with looks as far apart as it takes to decide: without a record the count starts again."""
    if observations.roster.late or observations.roster.unlisted:
        text = "give each look more time, the machine is too busy for less"
        return about_job(text, "unhang", "diagnose", "--timeout", str(_ON_BUSY_MACHINES), job=observations.roster.job)
    if not observations.roster.live:
        return about_job(_MORE_FILES, "unhang", "diagnose", job=observations.roster.job)
    left = reading.decided_after
    if left is None:
        return _further_apart("look again, with more time between the looks", observations)
    patience = min(_MOST_SECONDS, math.ceil(left + reading.stall) + 1)
    text = "give it longer: only time tells slow from stuck"
    return about_job(text, "unhang", "diagnose", "--patience", str(patience), job=observations.roster.job)


def _further_apart(text: str, observations: Observations) -> NextStep:
    apart = ("--interval", str(_LOOK_AGAIN_SECONDS), "--timeout", str(_LOOK_AGAIN_SECONDS + _FOR_THE_LOOKS_SECONDS))
    return about_job(text, "unhang", "diagnose", *apart, job=observations.roster.job)
