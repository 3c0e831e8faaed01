"""Puts what a run of the lab has found into a table of a page; what the page says of other rows and columns stays.

Rows that say the same are one.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

_AND = "; "
DOCS = Path(__file__).resolve().parents[2] / "docs"


def merge(page: str, corner: str, cells: Mapping[str, Mapping[str, str]]) -> None:
    """Set cells by row and column in the table whose first head is `corner`; versions are sorted as numbers."""
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^\| {corner} \|.*?(?=^\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{path} has no table of each {corner}"
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()]
    table = {name: dict(zip(head[1:], row[1:], strict=True)) for row in lines for name in row[0].split(_AND)}
    for row, more in cells.items():
        table[row] = table.get(row, {}) | dict(more)
    columns = sorted({column: None for row in table.values() for column in row}, key=_order)
    alike = defaultdict(list)
    for row in sorted(table, key=_order):
        alike[tuple(table[row].get(column, "") for column in columns)].append(row)
    rows = [[_AND.join(names), *same] for same, names in alike.items()]
    written = [[corner, *columns], ["---"] * (1 + len(columns)), *rows]
    table_text = "".join(f"| {' | '.join(row)} |\n" for row in written)
    path.write_text(text[: found.start()] + table_text + text[found.end() :], encoding="utf-8")


def _order(name: str) -> tuple[int, ...]:
    """Versions by number; everything else stays where it is."""
    return tuple(int(part) for part in re.findall(r"\d+", name)[:3]) if re.match(r"\d+\.\d+", name) else ()
