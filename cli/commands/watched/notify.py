"""`unhang notify`: try a receiver, and see who was told of incidents."""

from pathlib import Path

from cli.command_table import command, group
from cli.options import choose_collector
from cli.terminal import answer, note

_STATES = ["waiting", "repeating", "sent", "given_up", "dropped"]


@group("notify")
def notify() -> None:
    """Receivers of incidents: Alertmanager, PagerDuty, Slack and webhooks."""


@command("test", under=notify)
def test(receiver: str, notify_file: Path, resolve: bool) -> None:
    """Send an alert that says of itself that it is a test; with --resolve, its end.

    Run it as the collector's user, on the collector's machine: it reads the same file and the same secrets.
    """
    from collector.notify.sample import send_test

    links = send_test(notify_file, receiver, resolve=resolve)
    note(f"{receiver} took the test alert" + ("'s end" if resolve else "; end it with --resolve"))
    if not links:
        note("messages have no link: set page_url in the notify file to where people reach the collector's pages")


@command("list", under=notify)
def list_messages(
    as_json: bool,
    states: tuple[str, ...],
    receiver: str | None,
    limit: int,
) -> None:
    """List messages about incidents, newest first, and why they were not delivered."""
    remote = choose_collector()
    from cli.sources.incidents import list_deliveries
    from cli.tables.incidents import deliveries_table

    page = list_deliveries(remote, states=states, receiver=receiver, limit=limit)
    answer(page, as_json, lambda page: deliveries_table(page.deliveries))
