"""`unhang sequences`: how far each rank has got in each process group."""

import click

from cli.options import choose_source, job_argument, json_option, rank_option, read_ranks, source_options, ssh_options
from cli.terminal import emit, emit_json


@click.command(
    short_help="Show how far each rank has got in each group.",
    epilog="""\b
Examples:
  unhang sequences JOB --collector http://head:8470
  unhang sequences JOB --format perfetto > job.perfetto.json    for ui.perfetto.dev or chrome://tracing""",
)
@job_argument
@source_options
@ssh_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "perfetto", "json"]),
    default="table",
    show_default=True,
    help="table: who is behind; perfetto: every operation on record, on a time line.",
)
@json_option
@rank_option
def sequences(
    job: str | None,
    form: str,
    as_json: bool,
    ranks: str | None,
) -> None:
    """Show per process group of JOB which collective each rank has issued and completed, and who is behind.

    Needs a flight record: NCCL jobs of recent PyTorch keep one, others do under `unhang run`.
    """
    chosen = read_ranks(ranks)
    source = choose_source()
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import SEQUENCES, TIMELINE
    from cli.sources.job_source import JobChoice

    choice = JobChoice(job, chosen)
    if form == "perfetto" and not as_json:
        emit_json(ask_view(source, TIMELINE, choice))
        return
    view = ask_view(source, SEQUENCES, choice)
    if as_json or form == "json":
        emit_json(view)
        return
    from cli.tables.sequences import sequences_table

    emit(sequences_table(view))
    tell_gaps(view, "flight record")
