"""`unhang run`: start a job with the probe loaded."""

import os
import signal
import sys
from contextlib import suppress

import click

from cli.command_table import command

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


@command("run")
@click.pass_context
def run(context: click.Context, command: tuple[str, ...]) -> None:
    """Run COMMAND with the probe on PYTHONPATH, so that a hang of it can be told in full.

    This process becomes the command: its signals and exit status are its own. The probe opens a socket in each
    rank over which PyTorch's own flight recorder can be read; it never changes what the job does.
    """
    from agent.probe.path import probe_path

    earlier = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(probe_path()), *([earlier] if earlier else [])])
    _restore_signals()
    sys.stdout.flush()
    try:
        os.execvpe(command[0], list(command), {**os.environ, "PYTHONPATH": path})
    except OSError as error:
        click.echo(f"unhang run: {command[0]!r} cannot be run: {error.strerror}", err=True)
        context.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
    except ValueError as error:
        raise click.UsageError(f"the command cannot be run: {error}") from error


def _restore_signals() -> None:
    """Undo what Python ignores for itself: an ignored signal stays ignored in the command that follows."""
    for name in _IGNORED_BY_PYTHON:
        number = getattr(signal, name, None)
        if number is not None:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
