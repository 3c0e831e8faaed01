"""An answer in pages: no page is longer than a model reads at once, and a walk gives every row exactly once.

A document is JSON. Its rows are the items of its lists. A page holds as many as there is room for, in the order of the
document; the lists after them are empty, and those before them, too, if the page is not the first. A row that does not
fit a page of its own is given in parts: its fields that hold no lists each time, the items of its lists once. What is
too long and has no lists has its texts cut.
"""

import json
import re
from typing import Any, NamedTuple

from shared.errors import InvalidInput, quoted

MOST_CHARACTERS = 32_000
"""Of JSON, in one answer: some ten thousand tokens, which every client takes."""

_ROOM = 20_000
"""Of a page's rows; the rest is for the fields around them."""

_MOST_HEAD = 3_000
"""Of the fields of one object that is given in parts."""

_LIMITS = (2_000, 500, 120, 30)
"""Characters of one text where a row is too long, the first at which it fits."""

_CURSOR = re.compile(r"[a-z_]{1,40}(?:\.(?:[a-z_]{1,40}|[0-9]{1,9})){0,15}")

Json = Any
Document = dict[str, Json]
Place = tuple[str | int, ...]
"""Where the next page begins: names of fields, and positions in lists."""


class Page(NamedTuple):
    """A document with a part of its rows."""

    document: Document
    next: str | None
    """For the next page; None on the last."""
    shortened: bool
    """Has any text been cut?"""


def page_of(document: Document, cursor: str | None) -> Page:
    """Return the page of `document` that begins at `cursor`, or its first. Raises InvalidInput."""
    taking = _Taking(_ROOM)
    try:
        part, rest = taking.part_of(document, _parse(cursor))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise not_a_cursor(cursor) from error
    return Page(part, None if rest is None else ".".join(map(str, rest)), taking.shortened)


class _Taking:
    """Fills one page."""

    def __init__(self, room: int) -> None:
        self._left = room
        self._has_rows = False
        self.shortened = False

    def part_of(self, value: Document, start: Place) -> tuple[Document, Place | None]:
        """Return `value` with the rows from `start` for which there is room, and where the next page begins."""
        part = self._head_of(value)
        names = [name for name, field in value.items() if _has_rows(field)]
        if start:
            names = names[names.index(str(start[0])) :]
        for name in names:
            inner = start[1:]
            start = ()
            if isinstance(value[name], dict):
                part[name], rest = self.part_of(value[name], inner)
            else:
                part[name], rest = self._rows_of(value[name], inner)
            if rest is not None:
                return part, (name, *rest)
        return part, None

    def _rows_of(self, rows: list[Json], start: Place) -> tuple[list[Json], Place | None]:
        part: list[Json] = []
        at, inner = (int(start[0]), start[1:]) if start else (0, ())
        if not 0 <= at < len(rows):
            raise LookupError(at)
        for position, row in enumerate(rows[at:], start=at):
            size = _size(row)
            is_divided = isinstance(row, dict) and _has_rows(row)
            if inner and not is_divided:
                raise LookupError(inner)
            if not inner and size <= self._left:
                self._add(part, row, size)
            elif not inner and self._has_rows:
                return part, (position,)
            elif is_divided:
                some, rest = self.part_of(row, inner)
                part.append(some)
                if rest is not None:
                    return part, (position, *rest)
            else:
                short = self._short(row, _ROOM)
                self._add(part, short, _size(short))
            inner = ()
        return part, None

    def _add(self, part: list[Json], row: Json, size: int) -> None:
        part.append(row)
        self._left -= size
        self._has_rows = True

    def _head_of(self, value: Document) -> Document:
        head: Document = self._short(_without_rows(value), _MOST_HEAD)
        self._left -= _size(head)
        return head

    def _short(self, value: Json, most: int) -> Json:
        short = value
        for limit in _LIMITS:
            if _size(short) <= most:
                break
            self.shortened = True
            short = _cut(value, limit)
        return short


def _has_rows(value: Json) -> bool:
    """Does it hold a list that is not empty?"""
    if isinstance(value, dict):
        return any(map(_has_rows, value.values()))
    return isinstance(value, list) and bool(value)


def _without_rows(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_rows(field) for name, field in value.items()}
    return [] if isinstance(value, list) else value


def _cut(value: Json, most: int) -> Json:
    if isinstance(value, dict):
        return {name: _cut(field, most) for name, field in value.items()}
    if isinstance(value, list):
        return [_cut(item, most) for item in value]
    return f"{value[:most]}… (cut)" if isinstance(value, str) and len(value) > most else value


def _size(value: Json) -> int:
    return len(json.dumps(value)) + 2


def _parse(cursor: str | None) -> Place:
    if cursor is None:
        return ()
    if _CURSOR.fullmatch(cursor) is None:
        raise not_a_cursor(cursor)
    place = tuple(int(part) if part.isdecimal() else part for part in cursor.split("."))
    if isinstance(place[-1], str):
        raise not_a_cursor(cursor)
    return place


def not_a_cursor(cursor: str | None) -> InvalidInput:
    """Return the complaint about a cursor that no page gave."""
    return InvalidInput(
        f"{quoted(str(cursor))} is not a cursor of this answer",
        advice="pass the `next` of the page before, with the same other arguments",
    )
