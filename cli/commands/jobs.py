"""`unhang jobs`: the jobs that are there."""

import click

from cli.options import choose_source, json_option, source_options, ssh_options
from cli.terminal import emit, emit_json


@click.command(short_help="List the jobs.", epilog="Example: unhang jobs --collector http://head:8470")
@source_options
@ssh_options
@json_option
def jobs(as_json: bool) -> None:
    """List the jobs on this machine, of a collector's agents, or in files."""
    found = choose_source().jobs()
    if as_json:
        emit_json(found)
        return
    from cli.tables.jobs import jobs_table

    emit(jobs_table(found))
