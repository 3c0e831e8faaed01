"""`unhang stacks`: all ranks' stacks, merged."""

import json
from typing import TYPE_CHECKING

import click

from cli.options import (
    choose_source,
    colour_option,
    job_argument,
    json_option,
    rank_option,
    read_ranks,
    source_options,
    ssh_options,
)
from cli.terminal import emit, emit_json, wants_colour, width

if TYPE_CHECKING:
    from cli.sources.job_source import JobChoice, JobSource

_NOTHING = "no stack could be read from any rank\n"


@click.command(
    short_help="Show all ranks' stacks, merged.",
    epilog="""\b
Examples:
  unhang stacks                            the only job here, as a tree
  unhang stacks JOB --format classes --rank 0-7
  unhang stacks JOB --format folded | flamegraph.pl > stacks.svg
  unhang stacks JOB --format speedscope > job.speedscope.json""",
)
@job_argument
@source_options
@ssh_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["tree", "classes", "folded", "speedscope", "json"]),
    default="tree",
    show_default=True,
    help="tree: where ranks part; classes: ranks at the same place; folded: for flame graphs.",
)
@json_option
@click.option("--native", is_flag=True, help="Also C and C++ frames; this stops each rank for about a second.")
@rank_option
@colour_option
def stacks(
    job: str | None,
    form: str,
    as_json: bool,
    native: bool,
    ranks: str | None,
    colour: str,
) -> None:
    """Show where the ranks of JOB are, their stacks merged and the ranks folded.

    A rank's first stack is that of the thread that trains. Its other threads and its child processes follow.
    """
    chosen = read_ranks(ranks)
    source = choose_source()
    from cli.sources.job_source import JobChoice

    choice = JobChoice(job, chosen, native)
    if form == "classes":
        _show_classes(source, choice, as_json=as_json, colour=colour)
    else:
        _show_tree(source, choice, form="json" if as_json else form, colour=colour)


def _show_classes(source: "JobSource", choice: "JobChoice", *, as_json: bool, colour: str) -> None:
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import CLASSES
    from collector.show.text.stacks import render_classes

    view = ask_view(source, CLASSES, choice)
    if as_json:
        emit_json(view)
        return
    emit(render_classes(view.classes, colour=wants_colour(colour), width=width()) or _NOTHING)
    tell_gaps(view, "stacks")


def _show_tree(source: "JobSource", choice: "JobChoice", *, form: str, colour: str) -> None:
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import TREE
    from collector.show.text.stacks import render_folded, render_others, render_tree, speedscope

    view = ask_view(source, TREE, choice)
    match form:
        case "json":
            emit_json(view)
        case "folded":
            emit(render_folded(view.root))
        case "speedscope":
            emit(json.dumps(speedscope(view.root, name=view.job or "")) + "\n")
        case _:
            emit(render_tree(view.root, colour=wants_colour(colour), width=width()) or _NOTHING)
            emit(render_others(view.others, colour=wants_colour(colour), width=width()))
            tell_gaps(view, "stacks")
