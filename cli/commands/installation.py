"""`unhang version`, `unhang plugins` and `unhang probe-path`: what is installed, and where."""

import click

from cli.command_table import command
from cli.terminal import emit
from shared import SCHEMA_VERSION, VERSION


@command("version")
def version(as_json: bool) -> None:
    """Print the version, and the version of the answers' schema."""
    if as_json:
        click.echo(f'{{"version":"{VERSION}","schema_version":{SCHEMA_VERSION}}}')
    else:
        click.echo(f"unhang {VERSION} (schema {SCHEMA_VERSION})")


@command("probe-path")
def probe_path() -> None:
    """Print the directory that loads the probe into a Python process that has it on PYTHONPATH."""
    from agent.probe.path import probe_path as path_of_probe

    click.echo(str(path_of_probe()))


@command("plugins")
@click.pass_context
def plugins(context: click.Context, as_json: bool) -> None:
    """List the sources, finders and receivers that installed packages add: docs/plugins.md. Rules: `unhang rules list`.

    Status: 0 where all can be used, 1 where one cannot.
    """
    import json

    from cli.tables.table import table, text
    from shared import plugins as installed

    found = {group: installed.plugins(group) for group in installed.GROUPS}
    rows = [(group, each.name, each.package) for group, of in found.items() for each in of.usable.values()]
    problems = [problem for of in found.values() for problem in of.problems]
    if as_json:
        keys = ("group", "name", "package")
        click.echo(json.dumps({"plugins": [dict(zip(keys, row, strict=True)) for row in rows], "problems": problems}))
    else:
        shown = table(("GROUP", "NAME", "PACKAGE"), rows) if rows else ["none is installed: docs/plugins.md"]
        emit(text([*shown, *(f"not used: {problem}" for problem in problems)]))
    context.exit(1 if problems else 0)
