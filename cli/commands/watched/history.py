"""`unhang history`: what was found before, and the nodes that are at fault again and again."""

import click

from cli.options import choose_collector, collector_options, json_option
from cli.terminal import emit, emit_json


@click.command(
    short_help="Show what was found before, by job and node.",
    epilog="""\b
Examples:
  unhang history --collector http://head:8470
  unhang history --job llama-7b --days 7""",
)
@collector_options
@json_option
@click.option("--job", help="Only of this job.")
@click.option("--host", help="Only incidents with a culprit on this node, and preflights it took part in.")
@click.option("--days", type=click.FloatRange(0.01, 365), default=30.0, show_default=True, help="How far back.")
def history(as_json: bool, job: str | None, host: str | None, days: float) -> None:
    """Show the incidents, diagnoses and preflights that a collector has kept.

    Nodes whose ranks were culprits four times or more are named first, with whether the causes are ones that hardware
    can have, and nodes that preflights found bad. With --job, preflights are left out: they are of nodes.
    """
    remote = choose_collector()
    from cli.sources.incidents import read_history

    found = read_history(remote, job=job, host=host, days=days)
    if as_json:
        emit_json(found)
        return
    from cli.tables.incidents import history_table

    emit(history_table(found))
