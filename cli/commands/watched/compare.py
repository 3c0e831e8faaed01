"""`unhang compare`: what changed between two diagnoses."""

from cli.command_table import command
from cli.options import choose_collector, named_collector
from cli.terminal import answer


@command("compare")
def compare(left: str, right: str, as_json: bool) -> None:
    """Compare two diagnoses fact by fact: verdict, kind, cause, culprits, where they are, and for how long.

    A and B are each a directory or an archive, as `diagnose --from` reads it, or the id of a diagnosis that a collector
    keeps. Write a path with a slash where an id could be meant.
    """
    from cli.sources.watched.compared import compare_diagnoses, read_diagnosis
    from cli.tables.compared import compared_table

    remote = None if named_collector() is None else choose_collector()
    found = compare_diagnoses(read_diagnosis(left, remote), read_diagnosis(right, remote))
    answer(found, as_json, compared_table)
