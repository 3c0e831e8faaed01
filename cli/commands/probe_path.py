"""`unhang probe-path`: where the probe lies."""

import click


@click.command(
    "probe-path",
    short_help="Print the probe's directory, for PYTHONPATH.",
    epilog="Example: PYTHONPATH=$(unhang probe-path) torchrun train.py",
)
def probe_path() -> None:
    """Print the directory that loads the probe into a Python process that has it on PYTHONPATH."""
    from agent.probe.path import probe_path as path_of_probe

    click.echo(str(path_of_probe()))
