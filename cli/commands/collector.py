"""`unhang collector`: the service that asks all agents and judges."""

from contextlib import suppress
from typing import Any

import click

from cli.command_table import command
from shared.server.lifecycle.stop_signals import StopSignals


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
