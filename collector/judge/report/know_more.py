"""Step 10: what to do or switch on to know more, where no finding says it."""

import math
from collections.abc import Iterator, Sequence

from collector.align.observations import Observations
from collector.align.wait_states import WaitState
from collector.judge.report.headline import Interpretation
from collector.judge.report.next_steps import about_job, advice_of_lines, record_next_time
from collector.judge.trails.ask import steps_to_ask
from shared.answer.diagnosis import NextStep
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.missing import Missing, Reason
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.shell_commands import copyable
from shared.wire.job_names import OF_SLURM
from shared.wire.log_events import Logs

_LOOK_AGAIN_SECONDS = 30
_MOST_SECONDS = 600
"""The longest pause or patience that is worth suggesting."""
_FOR_THE_LOOKS_SECONDS = 30
_ON_BUSY_MACHINES = 180
"""Twice what there usually is with all patience."""

_WHILE_IT_HANGS = (
    "if the job still hangs, ask on its nodes, as it runs: `unhang diagnose` there says who moves and who does not"
)
_DUMP_AGAIN = (
    "nothing waits in these records: if the job hung, take dumps of all ranks while it stands still, twice and ten "
    "seconds apart"
)
_TRACE_THEM = (
    "have `unhang` run as root or as the job's user, or give it CAP_SYS_PTRACE: no stack could be read without that"
)

_SECOND_DUMP = (
    "write down when this set was taken (`date +%s > DIR/first/date`), dump every rank once more, at least {seconds} "
    "s later, into a directory of its own below DIR, with its time (`date +%s > DIR/second/date`), and ask again with "
    "both: what has not moved in between is stuck. Without these times equal dumps may be one and its copy"
)


@costs_itself(lambda reading, observations: ())
def steps_to_know_more(reading: Interpretation, observations: Observations) -> tuple[NextStep, ...]:
    """What to do or switch on where no finding says it."""
    if reading.state == "ended":
        return tuple(where_ends_are_told(observations.roster.job))
    if reading.verdict is not Verdict.CANNOT_TELL:
        seems = "if it seems to stand still nevertheless, look again, with more time between the looks"
        return (_further_apart(seems, observations),) if observations.roster.live and reading.state == "running" else ()
    asked = list(steps_to_ask(reading.trails))
    steps = [*(asked if reading.decided_after is None else ()), *_unread_in_c(observations), *_untraced(observations)]
    if reading.unseen:
        steps.append(_where_to_look(reading.unseen, observations))
    elif not steps or reading.decided_after is not None:
        steps += _again(reading, observations)
    steps += [*(() if reading.decided_after is None else asked), *advice_of_lines(observations)]
    if not observations.recorded:
        steps += record_next_time(observations)
    return tuple(steps)


def where_ends_are_told(job: str | None) -> Iterator[NextStep]:
    """Where to read how a job ended that can be looked at no more."""
    if job is not None and job.startswith(OF_SLURM):
        number = job.removeprefix(OF_SLURM).partition("@")[0]
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


def _untraced(observations: Observations) -> Iterator[NextStep]:
    """Whether the right to read stacks is what is missing: no further look would see more."""
    present = observations.roster.present()
    stacks = [view.looks[-1].stacks for view in present if view.looks and view.stacks is None]
    if any(isinstance(each, Missing) and each.reason is Reason.NOT_PERMITTED for each in stacks):
        yield NextStep(text=_TRACE_THEM)


def _where_to_look(ranks: Sequence[int], observations: Observations) -> NextStep:
    who = ranks_in_words(ranks)
    if observations.roster.live:
        how = "ask a collector, or all nodes of the job with `unhang diagnose --ssh --hosts LIST`"
        return NextStep(text=f"examine {who}, too: {how}")
    looks = [observations.roster.ranks[rank].looks for rank in ranks]
    logged = all(any(isinstance(look.logs, Logs) for look in each) for each in looks)
    what = "dumps or stacks" if logged else "dumps, stacks or logs"
    return NextStep(text=f"examine {who}, too: add {either(ranks, 'its', 'their')} {what} to the directory")


def _again(reading: Interpretation, observations: Observations) -> Iterator[NextStep]:
    """The next question, with looks as far apart as it takes to decide: without a record the count starts again."""
    if reading.second_dump_after is not None:
        yield NextStep(text=_SECOND_DUMP.format(seconds=reading.second_dump_after))
        return
    if observations.roster.late or observations.roster.unlisted or observations.late_in_only_look:
        text = "give each look more time, the machine is too busy for less"
        yield about_job(text, "unhang", "diagnose", "--timeout", str(_ON_BUSY_MACHINES), job=observations.roster.job)
        return
    if not observations.roster.live:
        yield from _of_files(observations)
        return
    left = reading.decided_after
    if left is None:
        yield _further_apart("look again, with more time between the looks", observations)
        return
    patience = min(_MOST_SECONDS, math.ceil(left + reading.stall) + 1)
    text = "give it longer: only time tells slow from stuck"
    yield about_job(text, "unhang", "diagnose", "--patience", str(patience), job=observations.roster.job)


def _of_files(observations: Observations) -> Iterator[NextStep]:
    """What these files lack; of records in which nobody waits, other ones are needed and not more."""
    present = observations.roster.present()
    lacking = [
        what
        for what, there in (
            ("flight-recorder dumps", observations.traces),
            ("stacks of all ranks", any(view.stacks is not None for view in present)),
            ("the logs of all ranks and of the launcher", any(view.logged for view in present)),
        )
        if not there
    ]
    complete = len(observations.traces) == observations.roster.world_size
    if complete:
        yield NextStep(text=_DUMP_AGAIN)
    elif observations.roster.ranks or observations.roster.unowned:  # else it may be agents that have shown nothing
        what = ", ".join(lacking) if lacking else "what the other ranks left"
        yield NextStep(text=f"add to the directory what is not in it: {what}")
    yield NextStep(text=_WHILE_IT_HANGS)


def _further_apart(text: str, observations: Observations) -> NextStep:
    """Twice as far apart as these were, where that was long already."""
    apart = min(_MOST_SECONDS, max(_LOOK_AGAIN_SECONDS, 2 * math.ceil(observations.motion.seconds)))
    words = ("--interval", str(apart), "--timeout", str(apart + _FOR_THE_LOOKS_SECONDS))
    return about_job(text, "unhang", "diagnose", *words, job=observations.roster.job)
