"""`unhang rules`: what is known of log lines, kernel lines, frames and secrets, and what a site adds to it."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.command_table import command, group
from cli.terminal import emit

if TYPE_CHECKING:
    from cli.rules_story import Explanation
    from shared.rules.site_rules import SiteRules


@group("rules")
def rules() -> None:
    """Rules say what a log line, a kernel line, a stack frame or a secret is. A site can add its own: docs/rules.md."""


@command("list", under=rules)
def list_rules(as_json: bool) -> None:
    """Show how many rules of each table are built in, and each that your site adds, with its file."""
    import json

    from cli.rules_story import built_in
    from cli.tables.table import table, text
    from shared.rules.site_rules import installed_rules

    site, ours = installed_rules(), built_in()
    if as_json:
        added = [{"table": each.table, "id": each.row.id, "file": each.file} for each in site.rows]
        click.echo(json.dumps({"built_in": ours, "site": added, "problems": site.problems}))
        return
    lines = table(("TABLE", "BUILT IN"), [(name, str(count)) for name, count in ours.items()])
    if site.rows:
        lines += ["", *table(("TABLE", "ID", "FILE"), [(each.table, each.row.id, each.file) for each in site.rows])]
    emit(text([*lines, *_problems(site)]))


@command("test", under=rules)
@click.pass_context
def check_rules(context: click.Context, directory: Path) -> None:
    """Check every row in DIRECTORY: its fields, how long its patterns may take, and the examples that it names.

    Status: 0 where all rows can be used, 1 where one cannot, 2 usage.
    """
    from shared.rules.site_rules import read_rules

    found = read_rules(directory)
    emit(f"{len(found.rows)} {'rule' if len(found.rows) == 1 else 'rules'} can be used\n")
    emit("".join(f"{line}\n" for line in _problems(found)))
    context.exit(1 if found.problems else 0)


@command("explain", under=rules)
@click.pass_context
def explain(context: click.Context, line: str, as_json: bool) -> None:
    """Say which rule takes LINE for what, and what nearly does; if none does, which row to write.

    LINE is a line of a log or of the kernel's, or a frame as stacks show it: 'FUNCTION (FILE:LINE)'.
    Status: 0 where a rule takes it, 1 where none does.
    """
    from cli.rules_story import explained

    story = explained(line)
    if as_json:
        click.echo(story.model_dump_json())
    else:
        emit("".join(f"{each}\n" for each in _told(line, story)))
    context.exit(0 if story.taken else 1)


def _problems(site: "SiteRules") -> list[str]:
    return ["", *(f"not used: {problem}" for problem in site.problems)] if site.problems else []


def _told(line: str, story: "Explanation") -> Iterable[str]:
    for one in story.taken:
        yield f"{one.table}: {one.means}" + (f"; the rule {one.rule} of your site fits" if one.rule else "")
        yield from (f"  {name}  {value}" for name, value in one.fields.items())
    for hint in story.nearly:
        yield f"nearly: it holds {hint!r}, by which a rule is found, and its pattern does not match"
    if not story.taken:
        yield "no rule takes it for anything. A row that does, in a file *.toml of your rules (docs/rules.md):"
        yield ""
        yield from _row_for(line)


def _row_for(line: str) -> Iterable[str]:
    from shared.rules.site_rules import FRAME

    frame = FRAME.match(line)
    quoted = "'''" + line.replace("'''", "") + "'''"
    yield "[[frames]]" if frame else "[[lines]]"
    yield "id = 'a-name-of-yours'"
    yield f"matches = [{quoted}]"
    yield "never = ['''a line that looks like it, and is something else''']"
    yield "origin = 'who prints it, and since when'"
    if frame:
        yield f"function = '^{re.escape(frame['function'].rpartition('.')[2])}$'"
        yield f"file = '{re.escape(frame['file'])}$'"
        yield "cause = 'user_code'        # or dataloader, checkpoint, network, filesystem, ..."
        yield "label = 'waiting for a lease'"
    else:
        yield "kind = 'says_wait'         # other kinds are in docs/rules.md; of an exception its rank is the culprit"
        yield "hint = 'words that are in each such line'"
        yield r"pattern = 'those words, and (?P<peer>\S+), what changes'"
