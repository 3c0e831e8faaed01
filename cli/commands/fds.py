"""`unhang fds`: what the ranks hold open."""

import click

from cli.options import choose_source, job_argument, json_option, rank_option, read_ranks, source_options, ssh_options
from cli.terminal import emit, emit_json


@click.command(
    short_help="Show open sockets, pipes and files, rank by rank.", epilog="Example: unhang fds JOB --rank 3 --all"
)
@job_argument
@source_options
@ssh_options
@json_option
@rank_option
@click.option("--all", "every", is_flag=True, help="All sockets and pipes, not only the first ones.")
def fds(
    job: str | None,
    as_json: bool,
    ranks: str | None,
    every: bool,
) -> None:
    """Show the open file descriptors of the ranks of JOB: sockets with peers, pipes and who holds the other end."""
    chosen = read_ranks(ranks)
    source = choose_source()
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import FDS
    from cli.sources.job_source import JobChoice

    view = ask_view(source, FDS, JobChoice(job, chosen))
    if as_json:
        emit_json(view)
        return
    from cli.tables.fds import fds_table

    emit(fds_table(view, every=every))
    tell_gaps(view, "descriptors")
