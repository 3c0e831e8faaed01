"""`unhang watch`: say what hangs as it happens, until Ctrl-C."""

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from cli.command_table import command
from cli.options import choose_collector, hosts_over_ssh, named_collector
from cli.terminal import emit, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.answer.incidents import IncidentEvent


@command("watch")
def watch(every: float, as_json: bool) -> None:
    """Say what is open in the jobs on this machine, on hosts over ssh, or a collector's, then each change.

    On this machine, each job is diagnosed when it is first seen, and when none of its ranks has gone on for half a
    minute, or for three times their longest usual pause; what is found twice is printed. It needs the right to read the
    ranks, as `diagnose` does. Over ssh each visit is a diagnosis of every job, as nothing runs there in between.
    """
    from cli.tables.incidents import event_line

    for event in _events(every):
        emit(event.model_dump_json(by_alias=True) + "\n" if as_json else event_line(event, _pages()))


def _events(every: float) -> "Iterator[IncidentEvent]":
    """Return what happens where it was asked to look, from now on."""
    over_ssh = hosts_over_ssh()
    if over_ssh is None and _is_given("every"):
        raise click.UsageError("--every goes with --ssh; elsewhere jobs are watched all the time")
    if over_ssh is not None:
        if _is_given("collector"):
            raise click.UsageError("--ssh and --collector cannot be combined")
        from cli.sources.watched.watch_ssh import watch_ssh

        note("visiting the hosts; Ctrl-C ends it")
        return watch_ssh(over_ssh, note, every_seconds=every)
    collector = named_collector()
    if collector is not None:
        from cli.sources.incidents import follow_events

        note(f"following {collector}; Ctrl-C ends it")
        return follow_events(choose_collector())
    from cli.sources.watched.watch_here import watch_here

    note("watching the jobs on this machine; Ctrl-C ends it")
    return watch_here(note)


def _pages() -> str | None:
    """Where the collector shows its incidents to people; None: there is none."""
    return None if hosts_over_ssh() is not None else named_collector()


def _is_given(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
