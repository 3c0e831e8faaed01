"""`unhang logs`: the last lines of all ranks' logs."""

import click

from cli.options import choose_source, job_argument, json_option, rank_option, read_ranks, source_options, ssh_options
from cli.terminal import emit, emit_json


@click.command(
    short_help="Show the ends of all ranks' logs.",
    epilog="""\b
Examples:
  unhang logs JOB -n 20 --rank 2
  unhang logs JOB --events       only lines that report an error, a timeout, a mismatch""",
)
@job_argument
@source_options
@ssh_options
@json_option
@rank_option
@click.option("-n", "--lines", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Of each file.")
@click.option("--events", is_flag=True, help="Only what was recognised in the logs.")
def logs(
    job: str | None,
    as_json: bool,
    ranks: str | None,
    lines: int,
    events: bool,
) -> None:
    """Show the ends of the logs of JOB, each line with its [host:rank]. Secrets are taken out."""
    chosen = read_ranks(ranks)
    source = choose_source()
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import logs as logs_of
    from cli.sources.job_source import JobChoice

    view = ask_view(source, logs_of(lines), JobChoice(job, chosen))
    if as_json:
        emit_json(view)
        return
    from cli.tables.logs import events_table, lines_table

    emit(events_table(view) if events else lines_table(view))
    tell_gaps(view, "logs")
