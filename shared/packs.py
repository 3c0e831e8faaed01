"""Packs: what is known of the world, as rows of TOML beside the code that reads them.

A text may be written in pieces, as a list. In it `%{NAME}` stands for one of the pack's `parts`, `%{package:A|B}` for
files of installed packages, of which py-spy cuts the paths at `site-packages/` or leaves them whole, and
`%{stdlib:A|B}` for modules of the standard library, and not for a user's file of the same name.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

K = TypeVar("K")

RowsBeside = Callable[[str, str], Iterable[dict[str, Any]]]
"""From a pack's file and one of its tables to further rows."""

_BESIDE: list[RowsBeside] = []

_PART = re.compile(r"%\{(?:(?P<of>package|stdlib):)?(?P<name>[^}]+)\}")
_FILES = {"package": r"(^|-packages/)({})/", "stdlib": r"(^|/python3\.\d+t?/)({})\.py$"}


@dataclass(frozen=True)
class LineRow(Generic[K]):
    """One kind of line. Its pattern is made when a line first holds its hint: few logs hold many."""

    kind: K
    hint: str
    text: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the line must match; its named groups are fields of the event."""
        return re.compile(self.text)


def add_rows_by(give: RowsBeside) -> None:
    """Have packs that are read from now on hold further rows: those of a site, of which pure code knows nothing."""
    if give not in _BESIDE:
        _BESIDE.append(give)


def read_pack(beside: str, name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of the pack beside a module, with its rows in their order and their texts whole.

    Behind ours stand those that `add_rows_by` was given.
    """
    tables = read_tables(beside, name)
    parts = tables.pop("parts", {})

    def part(found: re.Match[str]) -> str:
        if found["of"]:
            return _FILES[found["of"]].replace("{}", found["name"])
        return str(whole(parts[found["name"]]))

    def whole(value: Any) -> Any:
        text = "".join(value) if isinstance(value, list) else value
        return _PART.sub(part, text) if isinstance(text, str) else text

    return {
        table: [{key: whole(each) for key, each in row.items()} for row in rows]
        + [added for give in _BESIDE for added in give(name, table)]
        for table, rows in tables.items()
    }


def read_tables(beside: str, name: str) -> dict[str, Any]:
    """Return what a file of TOML beside a module holds, as it is."""
    import tomllib  # with the first: most commands need none

    return tomllib.loads((Path(beside).parent / name).read_text("utf-8"))


def line_rows(beside: str, name: str, kinds: Callable[[str], K]) -> tuple[LineRow[K], ...]:
    """Return the rows of a pack of lines."""
    return tuple(LineRow(kinds(row["kind"]), row["hint"], row["pattern"]) for row in read_pack(beside, name)["rows"])


def fitting(rows: Iterable[Mapping[str, Any]], known: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the first row whose `fields` are known, each with its value, or any for ""."""
    return next(
        row
        for row in rows
        if all(name in known and value in ("", known[name]) for name, value in row.get("fields", {}).items())
    )


def said_by(rows: Iterable[Mapping[str, Any]], known: Mapping[str, object]) -> str:
    """Return what the first row that fits says."""
    return str(fitting(rows, known)["said"].format_map(defaultdict(str, known)))
