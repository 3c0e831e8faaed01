"""`unhang version` and `unhang probe-path`: what is installed, and where."""

import click

from shared import SCHEMA_VERSION, VERSION


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def version(as_json: bool) -> None:
    """Print the version, and the version of the answers' schema."""
    if as_json:
        click.echo(f'{{"version":"{VERSION}","schema_version":{SCHEMA_VERSION}}}')
    else:
        click.echo(f"unhang {VERSION} (schema {SCHEMA_VERSION})")


@click.command(
    "probe-path",
    short_help="Print the probe's directory, for PYTHONPATH.",
    epilog="Example: PYTHONPATH=$(unhang probe-path) torchrun train.py",
)
def probe_path() -> None:
    """Print the directory that loads the probe into a Python process that has it on PYTHONPATH."""
    from agent.probe.path import probe_path as path_of_probe

    click.echo(str(path_of_probe()))
