"""`unhang incidents`: what the collector found wrong by itself, and what to say to it."""

import click

from cli.options import choose_collector, collector_options, json_option
from cli.terminal import emit, emit_json, note
from shared.answer.words import Kind

_STATES = ["opened", "acknowledged", "resolved", "false_alarm"]


@click.command(
    short_help="List incidents, or say something to one.",
    epilog="""\b
Examples:
  unhang incidents --collector http://head:8470
  unhang incidents --state opened --host node07
  unhang incidents --acknowledge ID --note 'cordoned node07'""",
)
@collector_options
@json_option
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Only in this state; repeatable.")
@click.option("--job", help="Only of this job.")
@click.option("--host", help="Only with a culprit on this node.")
@click.option("--kind", type=click.Choice([kind.value for kind in Kind]), metavar="KIND", help="Only of this kind.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="At most so many.")
@click.option("--acknowledge", metavar="ID", help="Say that somebody works on this one.")
@click.option("--false-alarm", metavar="ID", help="Say that nothing was wrong.")
@click.option("--by", default="", help="Who says so.")
@click.option("--note", "remark", default="", help="Why.")
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

    id = acknowledge if acknowledge is not None else false_alarm
    if id is not None:
        verb = "acknowledge" if acknowledge is not None else "false-alarm"
        changed = change_incident(remote, id, verb, by=by, note=remark)
        note(f"{changed.id} is {'a false alarm' if false_alarm is not None else changed.state.value}")
        page = IncidentPage(incidents=(changed,))
    else:
        page = list_incidents(remote, states=states, job=job, host=host, kind=kind, limit=limit)
    if as_json:
        emit_json(page)
        return
    from cli.tables.incidents import incidents_table

    emit(incidents_table(page.incidents))
