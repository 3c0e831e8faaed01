"""Entries of a dump that differ in sequences and times alone are put together, and the first of them is read.

A job makes the same few calls over and over. Where a dump is not as the usual picklers write it (`fast_path.py` reads
these), its entries are compared as values: msgspec takes out of all of them, in C, what has the right type.
"""

import marshal
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Annotated, Any, NamedTuple

import msgspec

from shared.formats.recorder.fields import MOST_DIMENSIONS, MOST_TENSORS
from shared.formats.recorder.json_dump import Raw


class Kinds(NamedTuple):
    """A record as it is put together: one entry of each kind, and what tells the others of it apart."""

    order: Sequence[int]
    """Of each record, the index of its entry."""
    numbers: Sequence["array[int]"]
    """Its sequences, op ids and times as columns of 64 bits, in the order in which dump.py reads them."""

    def unfold(self, items: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Return the entries, and for each record the index of the entry that describes it."""
        return items, self.order

    def weave(self, _own: Sequence[tuple[int, ...]], _order: Sequence[int]) -> Sequence["array[int]"]:
        """Return the sequences, op ids and times of all records."""
        return self.numbers


_PLAIN = 2
"""The version of marshal's format in which equal values look alike: later ones note what is shared."""


def signature_key(values: Sequence[Any]) -> bytes:
    """Return a key of the fields of a signature that holds them all: of a pickle these may be endless."""
    return marshal.dumps([bytes(value) if isinstance(value, Raw) else value for value in values], _PLAIN)


def parts_of(values: Iterable[Any]) -> int:
    """Return how many numbers there are in shapes, or texts in lists."""
    lists = [raw for raw in values if isinstance(raw, (list, tuple)) and len(raw) <= MOST_TENSORS]
    return sum(map(len, lists)) + sum(len(part) for raw in lists for part in raw if type(part) in (list, tuple))


class _Call(msgspec.Struct, frozen=True, gc=False):
    """What entries of one kind share but for lists. Values of several types may be equal, and mean different things."""

    pg_id: int | str | None = None
    process_group: tuple[str, str] | None = None
    profiling_name: str | None = None
    state: str | None = None
    retired: bool | None = None
    timeout_ms: int | None = None
    is_p2p: bool | None = None
    thread_id: int | str | None = None
    time_created_us: None = None
    """Of old versions, whose entries are read one by one."""


_Sizes = Annotated[
    tuple[Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_DIMENSIONS)], ...],
    msgspec.Meta(max_length=MOST_TENSORS),
]
_Texts = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_TENSORS)]


class _Tensors(msgspec.Struct, frozen=True, gc=False):
    input_sizes: _Sizes | None = None
    input_dtypes: _Texts | None = None
    output_sizes: _Sizes | None = None
    output_dtypes: _Texts | None = None


class _Own(msgspec.Struct, gc=False):
    """What an entry shares with no other."""

    collective_seq_id: int | None = None
    seq_id: int | None = None
    p2p_seq_id: int | None = None
    op_id: int | None = None
    time_created_ns: int | None = None
    time_discovered_started_ns: int | None = None
    time_discovered_completed_ns: int | None = None
    duration_ms: Any = None


_FIRST_SEQUENCES = _Own.__struct_fields__[:2]
_NUMBERS = _Own.__struct_fields__[2:-1]


class _Odd(Exception):
    """Entries hold what is to be read one by one."""


def put_together(entries: Sequence[Any], *, most_parts: int) -> tuple[Sequence[Any], Kinds] | None:
    """Return the first entry of each kind, and what tells the others of it apart; None: each is to be read by itself.

    `most_parts` bounds how many frames, sizes and characters they may hold in all, each counted wherever it is: a small
    pickle may hold one list in a million places. The entries are to be kept for as long as what is returned.
    """
    if len(entries) < 2 or set(map(type, entries)) != {dict}:
        return None
    parts = _Parts(most_parts)
    try:
        own = _columns(entries)
        numbers = [_numbers(own[name]) for name in (_sequence_of(entries[0], own), *_NUMBERS)]
        keys = zip(
            msgspec.convert(entries, list[_Call]),
            [duration is None for duration in own["duration_ms"]],
            parts.stacks(entries),
            parts.tensors(entries),
            strict=True,
        )
        index: dict[tuple[Any, ...], int] = {}
        order = [index.setdefault(key, len(index)) for key in keys]
    except (_Odd, OverflowError, TypeError, ValueError, msgspec.ValidationError):
        return None
    first = dict(zip(reversed(order), reversed(entries), strict=True))
    return [first[kind] for kind in range(len(index))], Kinds(order, numbers)


def _columns(entries: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    own = map(msgspec.structs.astuple, msgspec.convert(entries, list[_Own]))
    return dict(zip(_Own.__struct_fields__, zip(*own, strict=True), strict=True))


def _sequence_of(first: Mapping[str, Any], own: Mapping[str, Sequence[int | None]]) -> str:
    """Return which name the first sequence goes by: the same one in each entry."""
    name = _FIRST_SEQUENCES[_FIRST_SEQUENCES[0] not in first]
    if None in own[name]:
        raise _Odd
    return name


def _numbers(column: Sequence[int | None]) -> "array[int]":
    """Raises OverflowError for what has more than 64 bits."""
    return array("q", [number or 0 for number in column])


class _Parts:
    """Reads lists, and counts what they hold before that."""

    def __init__(self, most: int) -> None:
        self._left = most

    def stacks(self, entries: Sequence[Mapping[str, Any]]) -> list[Any]:
        """A stack's key: its text, or where its frames are."""
        column = [entry.get("frames") for entry in entries]
        types = set(map(type, column))
        if types <= {Raw, NoneType}:
            return [None if raw is None else bytes(raw) for raw in column]
        if not types <= {list, tuple, NoneType}:
            raise _Odd
        stacks = [each or () for each in column]
        self._count(stacks)
        return [tuple(map(id, frames)) for frames in stacks]

    def tensors(self, entries: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The key of what an entry's tensors are: the texts, or the values."""
        columns = [[entry.get(name) for entry in entries] for name in _Tensors.__struct_fields__]
        if set(map(type, chain.from_iterable(columns))) <= {Raw, NoneType}:
            return [tuple(raw and bytes(raw) for raw in each) for each in zip(*columns, strict=True)]
        for column in columns:
            self._count(filter(None, column))
            self._count(chain.from_iterable(filter(None, column)))
        return msgspec.convert(entries, list[_Tensors])

    def _count(self, lists: Iterable[Any]) -> None:
        self._left -= sum(map(len, lists))
        if self._left < 0:
            raise _Odd
