"""Columns that are as wide as they need to be."""

from collections.abc import Sequence

from collector.show.text.layout import columns_of, pad
from collector.show.text.printable import printable

_MOST_CELL = 60


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 0) -> list[str]:
    """Return lines: the heads, then the rows, aligned; the last column is as long as it is."""
    shown = [[printable(cell, most=_MOST_CELL) for cell in row[:-1]] + [printable(row[-1])] for row in rows]
    widths = columns_of([list(heads), *shown])
    margin = " " * indent
    return [
        (margin + "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in [list(heads), *shown]
    ]


def text(lines: Sequence[str]) -> str:
    """Return the lines as one text."""
    return "".join(f"{line}\n" for line in lines)
