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
from shared.missing import Missing
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.shell_commands import copyable

_LOOK_AGAIN_SECONDS = 30
_SLURM = "slurm-"
_MOST_SECONDS = 600
"""The longest pause or patience that is worth suggesting."""
_FOR_THE_LOOKS_SECONDS = 30

_MORE_FILES = (
    "add what other ranks left: flight-recorder dumps, stacks, or the logs of all ranks and of the launcher; "
    "if the job still hangs, take them now: `unhang diagnose` on its nodes"
)

_SECOND_DUMP = (
    "dump every rank once more, at least {seconds} s after the first time, and ask again with both sets, each in a "
    "directory of its own below DIR: what has not moved in between is stuck. Copy files with their times (`cp -p`, "
    "`scp -p`, `rsync -t`, `tar`): these show how far apart the dumps are"
)


def steps_to_know_more(reading: Interpretation, observations: Observations) -> tuple[NextStep, ...]:
    """What to do or switch on where no finding says it."""
    if reading.state == "ended":
        return tuple(where_ends_are_told(observations.roster.job))
    if reading.verdict is not Verdict.CANNOT_TELL:
        seems = "if it seems to stand still nevertheless, look again, with more time between the looks"
        return (_further_apart(seems, observations),) if observations.roster.live and reading.state == "running" else ()
    steps = [_where_to_look(reading.unseen, observations) if reading.unseen else _again(reading, observations)]
    steps = [*_unread_in_c(observations), *steps, *advice_of_lines(observations)]
    if not observations.traces:
        steps += record_next_time(observations)
    return tuple(steps)


def where_ends_are_told(job: str | None) -> Iterator[NextStep]:
    """Where to read how a job ended that can be looked at no more."""
    if job is not None and job.startswith(_SLURM):
        number = job.removeprefix(_SLURM).partition("@")[0]
        command = copyable("sacct", "-j", number, "--format", "JobID,State,ExitCode,DerivedExitCode,Reason")
        yield NextStep(text="ask Slurm how the job and its steps ended", command=command)
    text = "read what was found before, if a collector watched the job"
    yield NextStep(text=text, command=copyable("unhang", "history", "--job", job) if job else None)


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
    if reading.second_dump_after is not None:
        return NextStep(text=_SECOND_DUMP.format(seconds=reading.second_dump_after))
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
