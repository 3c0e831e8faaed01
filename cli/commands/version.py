"""`unhang version`."""

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
