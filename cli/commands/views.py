"""`unhang jobs`, `check`, `stacks`, `sequences`, `fds` and `logs`: what is there, and one aspect of a job each."""

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from cli.command_table import command
from cli.options import choose_source, read_ranks
from cli.terminal import answer, emit, emit_json, wants_colour, width

if TYPE_CHECKING:
    from collector.show.views import ChecksView, ClassesView, TreeView

_NO_STACK = "no stack could be read from any rank\n"
_STATUS = {"wrong": 10, "risky": 11}
"""Of a check, by how bad the worst is."""

_NOTHING_WRONG, _CANNOT_TELL = 0, 12


@command("jobs")
def jobs(as_json: bool) -> None:
    """List the jobs on this machine, of a collector's agents, or in files."""
    source = choose_source()
    from cli.tables.jobs import jobs_table

    answer(source.jobs(), as_json, jobs_table)


@command("fds")
def fds(job: str | None, as_json: bool, ranks: str | None, every: bool) -> None:
    """Show the open file descriptors of the ranks of JOB: sockets with peers, pipes and who holds the other end."""
    chosen, source = read_ranks(ranks), choose_source()
    from cli.job_view import show
    from cli.sources.aspects import FDS
    from cli.sources.job_source import JobChoice
    from cli.tables.fds import fds_table

    show(source, FDS, JobChoice(job, chosen), as_json, partial(fds_table, every=every), "descriptors")


@command("logs")
def logs(job: str | None, as_json: bool, ranks: str | None, lines: int, events: bool) -> None:
    """Show the ends of the logs of JOB, each line with its [host:rank]. Secrets are taken out."""
    chosen, source = read_ranks(ranks), choose_source()
    from cli.job_view import show
    from cli.sources.aspects import logs as logs_of
    from cli.sources.job_source import JobChoice
    from cli.tables.logs import events_table, lines_table

    show(source, logs_of(lines), JobChoice(job, chosen), as_json, events_table if events else lines_table, "logs")


@command("sequences")
def sequences(job: str | None, form: str, as_json: bool, ranks: str | None) -> None:
    """Show per process group of JOB which collective each rank has issued and completed, and who is behind.

    Needs a flight record: NCCL jobs of recent PyTorch keep one, others do under `unhang run`.
    """
    chosen, source = read_ranks(ranks), choose_source()
    from cli.job_view import ask_view, show
    from cli.sources.aspects import SEQUENCES, TIMELINE
    from cli.sources.job_source import JobChoice
    from cli.tables.sequences import sequences_table

    choice = JobChoice(job, chosen)
    if form == "perfetto" and not as_json:
        emit_json(ask_view(source, TIMELINE, choice))
    else:
        show(source, SEQUENCES, choice, as_json or form == "json", sequences_table, "flight record")


@command("stacks")
def stacks(job: str | None, form: str, as_json: bool, native: bool, ranks: str | None, colour: str) -> None:
    """Show where the ranks of JOB are, their stacks merged and the ranks folded.

    A rank's first stack is that of the thread that trains. Its other threads and its child processes follow.
    """
    chosen, source = read_ranks(ranks), choose_source()
    from cli.job_view import ask_view, show
    from cli.sources.aspects import CLASSES, TREE
    from cli.sources.job_source import JobChoice
    from collector.show.text.stacks import render_classes, render_folded, render_others, render_tree, speedscope

    choice, painted, wide = JobChoice(job, chosen, native), wants_colour(colour), width()
    if form == "folded" and not as_json:
        emit(render_folded(ask_view(source, TREE, choice).tree))
    elif form == "speedscope" and not as_json:
        view = ask_view(source, TREE, choice)
        emit(json.dumps(speedscope(view.tree, name=view.job or "")) + "\n")
    elif form == "classes":

        def classes(view: "ClassesView") -> str:
            return render_classes(view.classes, colour=painted, width=wide) or _NO_STACK

        show(source, CLASSES, choice, as_json, classes, "stacks")
    else:

        def tree(view: "TreeView") -> str:
            trained = render_tree(view.tree, colour=painted, width=wide) or _NO_STACK
            return trained + render_others(view.others, colour=painted, width=wide)

        show(source, TREE, choice, as_json or form == "json", tree, "stacks")


@command("check")
@click.pass_context
def check(context: click.Context, job: str | None, as_json: bool, colour: str) -> None:
    """Check how JOB was started: ranks, meeting places, ports, interfaces, devices, versions, settings.

    Says of each thing that is wrong or risky on which ranks it was seen, why it matters, and the line to change.
    """
    source = choose_source()
    from cli.job_view import show
    from cli.sources.aspects import CHECKS
    from cli.sources.job_source import JobChoice
    from collector.show.text.checks import render_checks

    def as_text(view: "ChecksView") -> str:
        return render_checks(view.checks, looked_at=view.looked_at, colour=wants_colour(colour), width=width())

    view = show(source, CHECKS, JobChoice(job), as_json, as_text, "settings")
    worst = {each.severity.value for each in view.checks}
    nothing = _NOTHING_WRONG if view.looked_at else _CANNOT_TELL
    context.exit(next((status for word, status in _STATUS.items() if word in worst), nothing))
