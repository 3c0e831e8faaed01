"""`unhang compare`: what changed between two diagnoses."""

import click

from cli.options import choose_collector, collector_options, json_option, named_collector
from cli.terminal import emit, emit_json


@click.command(
    short_help="Show what changed between two diagnoses.",
    epilog="""\b
Examples:
  unhang compare ID1 ID2 --collector http://head:8470
  unhang compare before/ after/
  unhang compare unhang-ID1.tar.gz ID2 --json""",
)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@collector_options
@json_option
def compare(left: str, right: str, as_json: bool) -> None:
    """Compare two diagnoses fact by fact: verdict, kind, cause, culprits, where they are, and for how long.

    A and B are each a directory or an archive, as `diagnose --from` reads it, or the id of a diagnosis that a collector
    keeps. Write a path with a slash where an id could be meant.
    """
    from cli.sources.watched.compared import compare_diagnoses, read_diagnosis

    remote = None if named_collector() is None else choose_collector()
    found = compare_diagnoses(read_diagnosis(left, remote), read_diagnosis(right, remote))
    if as_json:
        emit_json(found)
        return
    from cli.tables.compared import compared_table

    emit(compared_table(found))
