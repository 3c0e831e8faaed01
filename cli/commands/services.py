"""`unhang agent`, the service on every node, and `unhang collector`, which asks all agents and judges."""

from contextlib import suppress
from typing import Any

import click

from cli.command_table import command
from shared.server.lifecycle.stop_signals import StopSignals


@command("agent")
@click.pass_obj
def agent(ended_by: list[int] | None, /, **flags: Any) -> None:
    """Serve what can be seen of this node's ranks, until a signal.

    Reads processes of others: run it as root, or as a user with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
    """
    with StopSignals(ended_by or ()) as stop:
        from agent.serve import serve
        from cli.settings import read_agent_settings

        settings = read_agent_settings(flags)
        stop.check()
        with suppress(KeyboardInterrupt):  # the way to end a service is no failure of it
            serve(settings, stop)


@command("collector")
@click.pass_obj
def collector(ended_by: list[int] | None, /, **flags: Any) -> None:
    """Serve diagnoses of the jobs that the agents see, until a signal."""
    with StopSignals(ended_by or ()) as stop:
        from collector.serve import serve
        from collector.settings import read_settings

        settings = read_settings(flags)
        stop.check()
        with suppress(KeyboardInterrupt):  # the way to end a service is no failure of it
            serve(settings, stop)
