"""Columns that are as wide as they need to be."""

from collections.abc import Sequence

from cli.terminal import screen
from collector.show.text.layout import columns_of, fitted, line, pad, plain
from collector.show.text.printable import printable

_MOST_CELL = 60
_GAP = "  "
_LEAST_INDENT = 4
_LEAST_ROOM = 24
"""Columns that the last cell needs beside the others."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 0) -> list[str]:
    """Return lines: the heads, then the rows, aligned; on a terminal the last column goes on below itself."""
    shown = [[printable(cell, most=_MOST_CELL) for cell in row[:-1]] + [printable(row[-1])] for row in rows]
    widths = columns_of([list(heads), *shown])
    start = indent + sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    columns = screen()
    if columns is not None and start + widths[-1] > columns:
        fits = columns - start >= _LEAST_ROOM
        return [line for row in [list(heads), *shown] for line in _folded(row, widths, indent, start if fits else None)]
    return [(" " * indent + _aligned(row, widths)).rstrip() for row in [list(heads), *shown]]


def _folded(row: Sequence[str], widths: Sequence[int], indent: int, start: int | None) -> list[str]:
    """A row of several lines: the last cell in its column, or below the others where there is no room beside them."""
    head = " " * indent + _aligned(row[:-1], widths[:-1])
    margin = " " * (indent + _LEAST_INDENT if start is None else start)
    room = (screen() or 0) - len(margin)
    last = plain(fitted([line(row[-1])], max(room, _LEAST_ROOM)))
    if start is None:
        return [head.rstrip(), *(margin + each.strip() for each in last)]
    return [(head + _GAP + last[0]).rstrip(), *(margin + each.strip() for each in last[1:])]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(pad(cell, width) for cell, width in zip(row, widths, strict=True))


def text(lines: Sequence[str]) -> str:
    """Return the lines as one text."""
    return "".join(f"{line}\n" for line in lines)
