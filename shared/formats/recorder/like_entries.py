"""Entries of a dump that differ in sequences and times alone are put together, and the first of them is read.

A job makes the same few calls over and over. Where a dump has not PyTorch's own bytes (`fast_path.py` reads these), its
entries are compared as values, column by column: what each column holds is checked as a whole, in C.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any

from shared.formats.recorder.fields import MOST_DIMENSIONS, MOST_TENSORS
from shared.formats.recorder.json_dump import Raw
from shared.formats.recorder.kinds import Kinds
from shared.formats.recorder.signature_key import plain_key

_FIRST_SEQUENCE = ("collective_seq_id", "seq_id")
_NUMBERS = ("p2p_seq_id", "op_id", "time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
_SCALARS: dict[str, type] = {"profiling_name": str, "state": str, "retired": bool, "timeout_ms": int, "is_p2p": bool}
"""Of which type the values of a column are, if any. Values of several types may be equal, and mean different things."""
_TENSORS = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_LISTS = {list, tuple}


class _Odd(Exception):
    """A column holds what is to be read entry by entry."""


def put_together(entries: Sequence[Any], *, most_parts: int) -> tuple[Sequence[Any], Kinds] | None:
    """Return the first entry of each kind, and what tells the others of it apart; None: each is to be read by itself.

    `most_parts` bounds how many frames, sizes and characters they may hold in all, each counted wherever it is: a small
    pickle may hold one list in a million places. The entries are to be kept for as long as what is returned.
    """
    if len(entries) < 2 or set(map(type, entries)) != {dict}:
        return None
    if any(microseconds is not None for microseconds in _column(entries, "time_created_us")):
        return None
    parts = _Parts(most_parts)
    try:
        numbers = [_numbers(_column(entries, name)) for name in (_sequence_of(entries), *_NUMBERS)]
        keys = zip(
            *(_scalars(_column(entries, name), one) for name, one in _SCALARS.items()),
            _scalars(_column(entries, "pg_id"), str if type(entries[0].get("pg_id")) is str else int),
            _groups(_column(entries, "process_group")),
            (duration is None for duration in _column(entries, "duration_ms")),
            parts.stacks(_column(entries, "frames")),
            parts.tensors([_column(entries, name) for name in _TENSORS]),
            strict=True,
        )
        index: dict[tuple[Any, ...], int] = {}
        order = [index.setdefault(key, len(index)) for key in keys]
    except (_Odd, OverflowError, TypeError, ValueError):
        return None
    first = dict(zip(reversed(order), reversed(entries), strict=True))
    return [first[kind] for kind in range(len(index))], Kinds(order, numbers)


def _column(entries: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [entry.get(name) for entry in entries]


def _sequence_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return which name the first sequence goes by: the same one in each entry."""
    name = _FIRST_SEQUENCE[_FIRST_SEQUENCE[0] not in entries[0]]
    if None in _column(entries, name):
        raise _Odd
    return name


def _numbers(column: list[Any]) -> "array[int]":
    """Raises OverflowError for what has more than 64 bits."""
    _scalars(column, int)
    return array("q", [number or 0 for number in column])


def _scalars(column: list[Any], one: type) -> list[Any]:
    if set(map(type, column)) - {one, NoneType}:
        raise _Odd
    return column


def _groups(column: list[Any]) -> list[tuple[str, ...]]:
    """Name and description of each entry's group. Raises TypeError where there is neither a list nor nothing."""
    if not set(map(type, column)) <= {*_LISTS, NoneType} or {len(each) for each in column if each is not None} - {2}:
        raise _Odd
    groups = [tuple(each or ()) for each in column]
    if set(map(type, chain.from_iterable(groups))) - {str}:
        raise _Odd
    return groups


class _Parts:
    """Reads columns of lists, and counts what they hold."""

    def __init__(self, most: int) -> None:
        self._left = most

    def stacks(self, column: list[Any]) -> list[Any]:
        """A stack's key: its text, or where its frames are."""
        types = set(map(type, column))
        if types <= {Raw, NoneType}:
            return [None if raw is None else bytes(raw) for raw in column]
        if not types <= {*_LISTS, NoneType}:
            raise _Odd
        stacks = [each or () for each in column]
        self._count(stacks)
        return [tuple(map(id, frames)) for frames in stacks]

    def tensors(self, columns: Sequence[list[Any]]) -> list[Any]:
        """The key of what an entry's tensors are: the texts, or the values written down."""
        types = set(map(type, chain.from_iterable(columns)))
        if types <= {Raw, NoneType}:
            return [tuple(raw and bytes(raw) for raw in each) for each in zip(*columns, strict=True)]
        if not types <= {*_LISTS, NoneType}:
            raise _Odd
        lists = [each for each in chain.from_iterable(columns) if each is not None]
        self._count(lists, most=MOST_TENSORS)
        parts = list(chain.from_iterable(lists))
        if set(map(type, parts)) - {*_LISTS, str}:
            raise _Odd
        shapes = [part for part in parts if type(part) is not str]
        self._count(shapes, most=MOST_DIMENSIONS)
        if set(map(type, chain.from_iterable(shapes))) - {int}:
            raise _Odd
        self._count([part for part in parts if type(part) is str])
        return [plain_key(each) for each in zip(*columns, strict=True)]

    def _count(self, lists: Sequence[Any], *, most: int | None = None) -> None:
        lengths = list(map(len, lists))
        self._left -= sum(lengths)
        if self._left < 0 or (most is not None and max(lengths, default=0) > most):
            raise _Odd
