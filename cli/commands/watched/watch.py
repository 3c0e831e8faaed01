"""`unhang watch`: say what hangs as it happens, until Ctrl-C."""

from pathlib import Path

import click

from cli.options import choose_collector, collector_options
from cli.terminal import emit, note


@click.command(
    short_help="Watch jobs, and say which hangs and why.",
    epilog="""\b
Examples:
  unhang watch                                     the jobs on this machine
  unhang watch --collector http://head:8470        those that a collector watches
  unhang watch --json | jq .incident.headline""",
)
@collector_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document per line and nothing else.")
def watch(collector: str | None, token_file: Path | None, as_json: bool) -> None:
    """Follow the jobs on this machine, or a collector's, and print each incident with its culprit.

    On this machine, ranks are diagnosed when none of them has gone on for half a minute, or for three times as long as
    their longest usual pause; what is found twice is printed. It needs the right to read the ranks, as `diagnose` does.
    """
    from cli.tables.incidents import event_line

    if collector is not None:
        from cli.sources.incidents import follow_events

        note(f"following {collector}; Ctrl-C ends it")
        for event in follow_events(choose_collector(collector, token_file)):
            emit(event.model_dump_json(by_alias=True) + "\n" if as_json else event_line(event))
        return
    from cli.sources.watch_here import watch_here

    note("watching the jobs on this machine; Ctrl-C ends it")
    for event in watch_here(note):
        emit(event.model_dump_json(by_alias=True) + "\n" if as_json else event_line(event))
