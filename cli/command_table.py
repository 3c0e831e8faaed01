"""Commands with their options, as `commands/commands.toml` lists them."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

from shared.answer.words import Kind
from shared.packs import read_tables

C = TypeVar("C", bound=click.Command)
Function = Callable[..., Any]
Row = dict[str, Any]

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
"""Of every command, asked alone or through `unhang`: click makes its option for help once, at the first question."""

_CHOICES = {"Kind": [kind.value for kind in Kind]}
"""Those that are words of the answers."""

_OURS = frozenset({"argument", "name", "kept", "flag", "int", "float", "choice", "path", "exists", "unprocessed"})
"""What of a row click does not take by this name."""


@cache
def command_rows() -> dict[str, Any]:
    """Return the table: a row for each command, and those that share options."""
    return read_tables(__file__, "commands/commands.toml")


def command(name: str, *, under: click.Group | None = None) -> Callable[[Function], click.Command]:
    """Make a function the command of that name, or one of the group `under`."""
    row = command_rows()[name] if under is None else command_rows()[str(under.name)][name]

    def make(function: Function) -> click.Command:
        made = _made(name, row, click.Command)(function)
        if under is not None:
            under.add_command(made)
        return made

    return make


def group(name: str) -> Callable[[Function], click.Group]:
    """Make a function the group of commands of that name."""
    return _made(name, command_rows()[name], click.Group)


def _made(name: str, row: Row, kind: type[C]) -> Callable[[Function], C]:
    settings = {**HELP_OPTIONS, **row.get("settings", {})}
    words = {"short_help": row["short"], "epilog": row.get("epilog"), "context_settings": settings}

    def make(function: Function) -> C:
        for each in reversed([*_options(row.get("params", ()))]):
            function = _parameter(each)(function)
        return click.command(name, kind, **words)(function)

    return make


def _options(named: "list[Row | str]") -> Iterator[Row]:
    """Yield the rows of options, shared ones in the place of their name."""
    for each in named:
        yield from _options(command_rows()["shared"][each]) if isinstance(each, str) else (each,)


def _parameter(row: Row) -> Callable[[Function], Function]:
    given = {name: value for name, value in row.items() if name not in _OURS}
    if (kind := _type(row)) is not None:
        given["type"] = kind
    if "argument" in row:
        return click.argument(row["argument"], **given)
    names = [row["name"]] if isinstance(row["name"], str) else row["name"]
    is_pair = "/" in names[0]  # --slurm/--no-slurm: where neither is said, a setting decides
    given |= {"show_default": bool(row.get("default"))}
    given |= {"is_flag": True} if row.get("flag") else {"default": None} if is_pair else {}
    if row.get("kept"):
        given |= {"expose_value": False, "callback": _keep(names[0])}
    return click.option(*names, **given)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return keep


def _type(row: Row) -> click.ParamType[Any] | None:
    match row:
        case {"int": bounds}:
            return click.IntRange(*bounds)
        case {"float": bounds}:
            return click.FloatRange(*bounds)
        case {"choice": words}:
            return click.Choice(_CHOICES[words] if isinstance(words, str) else words)
        case {"path": kind}:
            exists = row.get("exists", False)
            return click.Path(path_type=Path, dir_okay=kind != "file", file_okay=kind != "folder", exists=exists)
        case {"unprocessed": True}:
            return click.UNPROCESSED
    return None
