"""`unhang history`: what was found before, and the nodes that are at fault again and again."""

from cli.command_table import command
from cli.options import choose_collector
from cli.terminal import answer


@command("history")
def history(as_json: bool, job: str | None, host: str | None, days: float) -> None:
    """Show the incidents, diagnoses and preflights that a collector has kept.

    Nodes whose ranks were culprits four times or more are named first, with whether the causes are ones that hardware
    can have, and nodes that preflights found bad. With --job, preflights are left out: they are of nodes.
    """
    remote = choose_collector()
    from cli.sources.incidents import read_history
    from cli.tables.incidents import history_table

    answer(read_history(remote, job=job, host=host, days=days), as_json, history_table)
