"""Lines of styled text: wrapped while they are plain, painted last, so that colour never counts as width."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from collector.show.text.printable import display_width

NARROWEST = 40
"""Columns. A narrower terminal gets this, and folds the lines itself."""


class Style(StrEnum):
    """How a piece of text looks; the values are ANSI SGR parameters."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    BAD = "1;31"
    WARNING = "1;33"
    GOOD = "1;32"
    PUZZLING = "1;35"
    LABEL = "36"


class Span(NamedTuple):
    """A piece of one line. The text is printable already."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]
"""One line of output."""

EMPTY: Line = ()


def line(text: str, style: Style = Style.PLAIN) -> Line:
    """Return a line of one piece."""
    return (Span(text, style),)


def plain(lines: Iterable[Line]) -> list[str]:
    """Return the lines' text alone."""
    return ["".join(span.text for span in each).rstrip() for each in lines]


def paint(lines: Iterable[Line], *, colour: bool) -> str:
    """Return the text of `lines`, with ANSI colours where asked for."""
    if not colour:
        return "".join(f"{text}\n" for text in plain(lines))
    return "".join("".join(_painted(span) for span in each) + "\n" for each in lines)


def _painted(span: Span) -> str:
    if span.style is Style.PLAIN or not span.text.strip():
        return span.text
    return f"\x1b[{span.style.value}m{span.text}\x1b[0m"


def wrap(text: str, width: int) -> list[str]:
    """Split printable `text` at spaces into lines of at most `width` columns; longer words are broken."""
    width = max(width, 8)
    lines: list[str] = []
    current = ""
    for word in text.split():
        joined = f"{current} {word}" if current else word
        if display_width(joined) <= width:
            current = joined
            continue
        if current:
            lines.append(current)
        *full, current = _broken(word, width)
        lines.extend(full)
    return [*lines, current] if current else lines


def _broken(word: str, width: int) -> list[str]:
    """Split a word that is too long, after a comma where there is one in the second half of a piece."""
    pieces, piece, taken = [], "", 0
    for char in word:
        columns = display_width(char)
        if taken + columns > width:
            comma = piece.rfind(",") + 1
            cut = comma if comma > len(piece) // 2 else len(piece)
            pieces.append(piece[:cut])
            piece = piece[cut:]
            taken = display_width(piece)
        piece += char
        taken += columns
    return [*pieces, piece]


def paragraph(text: str, width: int, style: Style = Style.PLAIN) -> list[Line]:
    """Return `text` wrapped to `width`."""
    return [line(each, style) for each in wrap(text, width)]


def hanging(texts: Iterable[str], width: int) -> list[Line]:
    """Return each text wrapped to `width`, its lines after the first moved a little to the right."""
    lines: list[Line] = []
    for text in texts:
        first, *rest = paragraph(text, width - 2)
        lines += [first, *indented(rest, 2)]
    return lines


def indented(lines: Iterable[Line], columns: int) -> list[Line]:
    """Return `lines` moved to the right."""
    margin = Span(" " * columns)
    return [(margin, *each) if each else each for each in lines]


def labelled(label: str, lines: Sequence[Line], columns: int) -> list[Line]:
    """Return `lines` moved right by `columns`, with `label` in that margin of the first."""
    head = Span(pad(label, columns), Style.LABEL)
    return [(head, *each) if at == 0 else (Span(" " * columns), *each) for at, each in enumerate(lines)]


def pad(text: str, columns: int) -> str:
    """Return `text` filled up with spaces to `columns`, never cut."""
    return text + " " * (columns - display_width(text))


def columns_of(rows: Sequence[Sequence[str]], *, most: int = 10_000) -> list[int]:
    """Return the width that each column of `rows` needs, at most `most`; the rows are equally long."""
    return [min(most, max(map(display_width, column))) for column in zip(*rows, strict=True)]


def fitted(lines: Iterable[Line], width: int) -> list[Line]:
    """Return `lines` with those that are wider than `width` continued on further ones, a little to the right."""
    return [part for each in lines for part in _fit(each, width)]


def _fit(each: Line, width: int) -> list[Line]:
    text = "".join(span.text for span in each)
    if display_width(text) <= width:
        return [each]
    indentation = len(text) - len(text.lstrip())
    margin = Span(" " * min(indentation + 4, width // 2))
    cells = [(char, span.style) for span in each for char in span.text]
    at = _fold_point(cells, width, beyond=indentation)
    done = [_joined(cells[:at])]
    while cells := _without_space(cells[at:]):
        at = _fold_point(cells, width - len(margin.text), beyond=0)
        done.append((margin, *_joined(cells[:at])))
    return done


_Cells = list[tuple[str, Style]]


def _fold_point(cells: _Cells, width: int, *, beyond: int) -> int:
    """Return how many characters go on this line: as many as fit, up to a space if there is one `beyond` the margin."""
    taken, space = 0, 0
    for at, (char, _) in enumerate(cells):
        taken += display_width(char)
        if taken > width:
            return space or max(at, 1)
        if char == " " and at > beyond:
            space = at
    return len(cells)


def _without_space(cells: _Cells) -> _Cells:
    first = next((at for at, (char, _) in enumerate(cells) if char != " "), len(cells))
    return cells[first:]


def _joined(cells: _Cells) -> Line:
    """Return the characters as spans again."""
    return tuple(
        Span("".join(char for char, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1])
    )
