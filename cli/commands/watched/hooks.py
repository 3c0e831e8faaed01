"""`unhang hooks`: what a scheduler would be asked to do about a diagnosis; with `--run` it is asked."""

import subprocess

import click

from cli.command_table import command
from cli.options import choose_collector, named_collector
from cli.terminal import emit, note

_SECONDS = 60.0


@command("hooks")
def hooks(id: str, system: str, run: bool) -> None:
    """Print the commands and documents for what a diagnosis advises: to start a job again, or without some nodes.

    Nothing is run. With --run the commands are run on this machine, in order, until one fails: only where the fault is
    proven, and only those that are for no node in particular. Of all other acts, such as to fix code, nothing is
    printed: they are for a person. What is only known in a job (a pod, a pid) is left out where it is not known.
    """
    from cli.sources.watched.compared import read_diagnosis
    from cli.tables.hooks import hook_text
    from collector.show.hooks import hooks_for, is_proven

    diagnosis = read_diagnosis(id, None if named_collector() is None else choose_collector())
    made = hooks_for(diagnosis, system)
    if not made:
        act = "none" if diagnosis.action is None else diagnosis.action.do.value
        note(f"nothing to ask of {system}: the act is {act}, or what it takes is not known")
        return
    if run and not is_proven(diagnosis):
        raise click.ClickException("the fault is not proven, so nothing is run: leave out --run to see what would be")
    for hook in made:
        emit(hook_text(hook))
        if run and hook.command and hook.host is None:
            _run(hook.command, hook.send)


def _run(command: tuple[str, ...], send: str) -> None:
    try:
        subprocess.run(command, input=send, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise click.ClickException(f"not done, nor what follows: {error}") from error
