"""Copies the entries of a flight recorder, from the newest to the oldest, while its process may go on writing.

1. The header is read, the entries, what they point to, and the header again.
2. Entries that were written meanwhile stand where the oldest ones were: those are left out, and one more while the
   recorder is locked. Where the vector has moved since, or the newest entry is no entry, all of it is torn.
3. The numbers of entries must follow each other. At the first that does not the copy ends, and is told as cut.

Of shapes only bytes are copied: thousands of entries share a few, and each is taken apart once (dump_form.py).
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import Unreadable
from agent.proc.memory.torch_layouts import Layout
from agent.sources.recorder.memory.recorder_header import Implausible, RecorderHeader

_PIECE = 2 * 1024 * 1024
_SCALARS = (
    "id_:Q reset_epoch_:Q pg_id_:Q collective_seq_id_:q p2p_seq_id_:q op_id_:q time_created_:q timeout_ms_:q isP2P_:B "
    "duration_.set:B time_discovered_started_:q time_discovered_started_.set:B time_discovered_completed_:q "
    "time_discovered_completed_.set:B retired_:B traceback_:Q"
)
"""Fields, and how each is unpacked."""
_KEYS = {"id_": "Q", "reset_epoch_": "Q", "pg_id_": "Q"}
_TEXTS = "pg_name_.first pg_name_.second profiling_name_"
_FEW, _VECTORS = "input_dims_ output_dims_ sizes_", "input_dtypes_ output_dtypes_"


class Scalars(NamedTuple):
    """The plain fields of one entry, 0 where its version has none."""

    id: int
    epoch: int
    pg_id: int
    collective_seq: int
    p2p_seq: int
    op_id: int
    created_ns: int
    timeout_ms: int
    is_p2p: int
    has_duration: int
    started_ns: int
    has_started: int
    completed_ns: int
    has_completed: int
    retired: int
    traceback: int
    """Where the stack of the call lies."""


class Shapes(NamedTuple):
    """Sizes and types of an entry's tensors, as bytes."""

    input_dims: bytes
    output_dims: bytes
    sizes: bytes
    input_types: bytes
    output_types: bytes


class CopiedEntry(NamedTuple):
    """One entry with all that it points to, but for the stack of the call."""

    plain: Scalars
    group: tuple[str, str]
    """Name and description."""
    profiling_name: str
    shapes: Shapes


class FoundEntry(NamedTuple):
    """One entry before its pointers are followed."""

    plain: Scalars
    fields: tuple[int, ...]


class EntryReader:
    """Reads entries of one layout."""

    def __init__(self, paged: PagedMemory, layout: Layout) -> None:
        self._paged = paged
        self._size = layout["entry"].size
        self._objects = Objects(paged, layout)
        self._struct, places = _compiled(layout, _formats(layout))
        self._keys, keys = _compiled(layout, _KEYS)
        self._key = itemgetter(*(place[0] for place in _places(keys, " ".join(_KEYS))))
        self._scalars = itemgetter(*(place[0] for place in _places(places, _SCALARS)))
        self._texts, self._few, self._vectors = (_places(places, names) for names in (_TEXTS, _FEW, _VECTORS))
        self._items = [layout["entry"].fields[name].item for name in _FEW.split()]

    def newest_first(self, header: RecorderHeader, most: int) -> Iterator[FoundEntry]:
        """Iterate over up to `most` entries, as far as their numbers follow each other (step 3)."""
        expected = header.id
        for fields in self._fields(header, min(most, header.held)):
            plain = Scalars._make(self._scalars((*fields, 0)))
            expected -= 1
            if plain.epoch != header.epoch or plain.id != expected or not _is_plausible(plain):
                return
            yield FoundEntry(plain, fields)

    def newest_of_groups(self, header: RecorderHeader, most: int) -> tuple[list[FoundEntry], int]:
        """Return of up to `most` entries the newest of each group, and how many were looked at, as far as step 3 goes.

        Of the others only what tells whose they are is taken apart: a rank may issue thousands in a few seconds.
        """
        found: dict[int, FoundEntry] = {}
        left = expected = header.id
        for data in self._blocks(header, min(most, header.held)):
            keys = list(self._keys.iter_unpack(data))
            for place in range(len(keys) - 1, -1, -1):
                number, epoch, group = self._key((*keys[place], 0))
                if epoch != header.epoch or number != expected - 1:
                    return list(found.values()), left - expected
                if group not in found:
                    fields = self._struct.unpack_from(data, place * self._size)
                    plain = Scalars._make(self._scalars((*fields, 0)))
                    if not _is_plausible(plain):
                        return list(found.values()), left - expected
                    found[group] = FoundEntry(plain, fields)
                expected -= 1
        return list(found.values()), left - expected

    def _fields(self, header: RecorderHeader, most: int) -> Iterator[tuple[int, ...]]:
        for data in self._blocks(header, most):
            yield from reversed(list(self._struct.iter_unpack(data)))

    def _blocks(self, header: RecorderHeader, most: int) -> Iterator[bytes]:
        for first, last in _runs(header, most, _PIECE // self._size):
            yield self._paged.read_block(header.begin + first * self._size, (last - first) * self._size)

    def names(self, found: FoundEntry) -> tuple[str, str, str]:
        """Return the name and the description of an entry's group, and its operation. Raises as `copied` does."""
        group, description, name = (self._objects.text(*found.fields[first:last]) for first, last in self._texts)
        if not name.isprintable():
            raise Unreadable("an operation whose name cannot be printed")
        return group, description, name

    def operation(self, found: FoundEntry) -> str:
        """Return the name of an entry's operation alone, printable or not. Raises as `copied` does."""
        first, last = self._texts[-1]
        return self._objects.text(*found.fields[first:last])

    def copied(self, found: FoundEntry) -> CopiedEntry:
        """Follow the pointers of an entry. Raises Unreadable, Gone, or Unavailable past a limit."""
        fields, objects = found.fields, self._objects
        group, description, name = self.names(found)
        few = (
            _widened(objects.few_items(item, *fields[first:last]), item)
            for (first, last), item in zip(self._few, self._items, strict=True)
        )
        vectors = (objects.items(1, *fields[first:last]) for first, last in self._vectors)
        return CopiedEntry(found.plain, (group, description), name, Shapes(*few, *vectors))


def not_overwritten(entries: Iterable[CopiedEntry], before: RecorderHeader, after: RecorderHeader) -> list[CopiedEntry]:
    """Return the entries that were not written to between the two headers (step 2), newest first.

    Raises Implausible where there are none left of many.
    """
    if not before.is_same_ring(after) or after.id < before.id:
        raise Implausible("the flight recorder was moved or reset while it was read")
    overwritten = after.id - before.id + after.is_locked if before.held == before.most else 0
    kept = [entry for entry in entries if entry.plain.id >= before.id - before.held + overwritten]
    if before.held and not kept:
        raise Implausible("the flight recorder was overwritten while it was read")
    return kept


def _runs(header: RecorderHeader, most: int, at_once: int) -> Iterator[tuple[int, int]]:
    """Iterate over parts of the ring as (first, behind the last), newest part first."""
    left, end = most, header.next or header.held
    while left > 0:
        first = max(0, end - min(left, at_once))
        yield first, end
        left -= end - first
        end = first or header.held


def _is_plausible(plain: Scalars) -> bool:
    flags = (plain.is_p2p, plain.has_duration, plain.has_started, plain.has_completed, plain.retired)
    return max(flags) <= 1 and plain.pg_id < 1 << 32 and plain.created_ns >= 0


def _widened(numbers: bytes, item: int) -> bytes:
    """Return numbers as eight bytes each: up to 2.5 counts of dimensions have four."""
    count = len(numbers) // 4
    return numbers if item == 8 else struct.pack(f"<{count}q", *struct.unpack(f"<{count}i", numbers))


def _formats(layout: Layout) -> dict[str, str]:
    """Return how each field of an entry is unpacked."""
    formats = dict(part.split(":") for part in _SCALARS.split())
    formats |= dict.fromkeys(_TEXTS.split(), "Q" if layout.old_strings else "QQ")
    return formats | dict.fromkeys(_FEW.split(), "QII") | dict.fromkeys(_VECTORS.split(), "QQQ")


def _compiled(layout: Layout, formats: Mapping[str, str]) -> tuple[struct.Struct, dict[str, tuple[int, int]]]:
    """Return how these fields of an entry are unpacked in one go, and where each then stands, from and to."""
    text, at, place, places = "<", 0, 0, {}
    for offset, name in sorted((_offset(layout, name), name) for name in formats):
        if offset >= 0:
            text += f"{offset - at}x{formats[name]}"
            at = offset + struct.calcsize(f"<{formats[name]}")
            places[name] = place, place + len(formats[name])
            place += len(formats[name])
    return struct.Struct(f"{text}{layout['entry'].size - at}x"), places


def _offset(layout: Layout, name: str) -> int:
    """Return where a field of an entry lies; -1 where this version has none."""
    entry, (whole, _, part) = layout["entry"], name.partition(".")
    if name not in entry.fields and part in layout["string_pair"].fields:
        return entry.offset(whole) + layout["string_pair"].offset(part)
    return entry.offset(name) if name in entry.fields else -1


def _places(places: Mapping[str, tuple[int, int]], names: str) -> list[tuple[int, int]]:
    """Return where fields stand; one that is absent, where a zero is appended."""
    return [places.get(name.partition(":")[0], (-1, 0)) for name in names.split()]
