"""`unhang notify`: try a receiver, and see who was told of incidents."""

from pathlib import Path

import click

from cli.options import choose_collector, collector_options, json_option
from cli.terminal import emit, emit_json, note

_STATES = ["waiting", "repeating", "sent", "given_up", "dropped"]


@click.group(
    short_help="Try a receiver of incidents, or list what was sent.",
    epilog="""\b
Examples:
  unhang notify test pager --notify-file /etc/unhang/notify.toml
  unhang notify list --state given_up --collector http://head:8470""",
)
def notify() -> None:
    """Receivers of incidents: Alertmanager, PagerDuty, Slack and webhooks."""


@notify.command(short_help="Send a test alert to one receiver.")
@click.argument("receiver", metavar="NAME")
@click.option(
    "--notify-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="UNHANG_COLLECTOR_NOTIFY_FILE",
    required=True,
    help="The collector's notify file. [env: UNHANG_COLLECTOR_NOTIFY_FILE]",
)
@click.option("--resolve", is_flag=True, help="Say that the test alert is over.")
def test(receiver: str, notify_file: Path, resolve: bool) -> None:
    """Send an alert that says of itself that it is a test; with --resolve, its end.

    Run it as the collector's user, on the collector's machine: it reads the same file and the same secrets.
    """
    from collector.notify.sample import send_test

    links = send_test(notify_file, receiver, resolve=resolve)
    note(f"{receiver} took the test alert" + ("'s end" if resolve else "; end it with --resolve"))
    if not links:
        note("messages have no link: set page_url in the notify file to where people reach the collector's pages")


@notify.command("list", short_help="List who was told of what.")
@collector_options
@json_option
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Only in this state; repeatable.")
@click.option("--receiver", help="Only to this receiver.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="At most so many.")
def list_messages(
    as_json: bool,
    states: tuple[str, ...],
    receiver: str | None,
    limit: int,
) -> None:
    """List messages about incidents, newest first, and why they were not delivered."""
    remote = choose_collector()
    from cli.sources.incidents import list_deliveries

    page = list_deliveries(remote, states=states, receiver=receiver, limit=limit)
    if as_json:
        emit_json(page)
        return
    from cli.tables.incidents import deliveries_table

    emit(deliveries_table(page.deliveries))
