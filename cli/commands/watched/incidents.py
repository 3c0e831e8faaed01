"""`unhang incidents`: what the collector found wrong by itself, and what to say to it."""

import click

from cli.command_table import command
from cli.options import choose_collector
from cli.terminal import answer, note

_STATES = ["opened", "acknowledged", "resolved", "false_alarm"]


@command("incidents")
def incidents(
    as_json: bool,
    states: tuple[str, ...],
    job: str | None,
    host: str | None,
    kind: str | None,
    limit: int,
    acknowledge: str | None,
    false_alarm: str | None,
    by: str,
    remark: str,
) -> None:
    """List what the collector found hung without being asked, newest first."""
    if acknowledge is not None and false_alarm is not None:
        raise click.UsageError("--acknowledge and --false-alarm cannot be combined")
    if (by or remark) and acknowledge is None and false_alarm is None:
        raise click.UsageError("--by and --note go with --acknowledge or --false-alarm")
    remote = choose_collector()
    from cli.sources.incidents import IncidentPage, change_incident, list_incidents
    from cli.tables.incidents import incidents_table

    id = acknowledge if acknowledge is not None else false_alarm
    if id is not None:
        verb = "acknowledge" if acknowledge is not None else "false-alarm"
        changed = change_incident(remote, id, verb, by=by, note=remark)
        note(f"{changed.id} is {'a false alarm' if false_alarm is not None else changed.state.value}")
        page = IncidentPage(incidents=(changed,))
    else:
        page = list_incidents(remote, states=states, job=job, host=host, kind=kind, limit=limit)
    answer(page, as_json, lambda page: incidents_table(page.incidents))
