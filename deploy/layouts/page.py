"""Writes the table of builds into `docs/layouts.md`, from the table of layouts."""

import re
from collections.abc import Iterator
from pathlib import Path

from deploy.layouts.table import Build, Table

PAGE = Path("docs/layouts.md")
_HEAD = "| PyTorch | CUDA | strings |\n| --- | --- | --- |\n"
_TABLE = re.compile(r"^\| PyTorch \|.*?(?=^\n|\Z)", re.MULTILINE | re.DOTALL)


def write_page(table: Table) -> None:
    """Put the builds that the table has in the place of those that the page has."""
    PAGE.write_text(_TABLE.sub(lambda _: rows(table), PAGE.read_text()))


def rows(table: Table) -> str:
    """Return the table of the page."""
    return _HEAD + "".join(f"| {' | '.join(_cells(table, build))} |\n" for build in table["builds"])


def _cells(table: Table, build: Build) -> Iterator[str]:
    (strings,) = (layout["strings"] for layout in table["layouts"] if layout["name"] == build["layout"])
    yield from (build["torch"], build["cuda"] or "none", strings)
