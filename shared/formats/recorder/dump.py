"""PyTorch's flight recorder: a dump, pickled or JSON, becomes a `Trace`.

Format: torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.0 to 2.10, its forks for other backends, torchcomms,
the forms before 2.0 (PyTorch 2.2: a bare list of entries; 2.3: `pg_config` without names),
and JSON as the worker server's `fr_trace_json` writes it. Facts that decide correctness:

- Gloo leaves `state` at "scheduled" forever; an operation that has ended is `retired`. On NCCL "retired"
  without "completed" means that it timed out.
- `pg_status` is keyed by a per-process index, which only the entries tie to a group.
- `pg_config` may be empty (Gloo): then the members are not known.
- Senders and receivers in `profiling_name` are group ranks.
- The parts of a batch stay "scheduled"; the entry that ends it shows their state (see `coalesced`).
"""

import re
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shared.errors import UnreadableDump, quoted
from shared.formats.recorder.coalesced import settle_batches
from shared.formats.recorder.fast_path import Repeats
from shared.formats.recorder.fields import (
    MOST_RECORDS,
    at_least_zero,
    parse_collective,
    parse_created,
    parse_mapping,
    parse_mark,
    parse_members,
    parse_number,
    parse_sequence,
    parse_sizes,
    parse_state,
    parse_text,
    parse_texts,
)
from shared.formats.recorder.hooked import as_recorded_natively, is_hooked, marks_by_collectives
from shared.formats.recorder.json_dump import Raw, read_json_dump, read_part
from shared.formats.recorder.like_entries import Kinds, parts_of, put_together, signature_key
from shared.formats.recorder.lives import of_last_lives
from shared.formats.recorder.operations import is_handed_out, parse_operation
from shared.formats.recorder.safe_pickle import load_plain
from shared.json_bounds import TooCostly
from shared.value import narrow
from shared.wire.stacks import Frame
from shared.wire.trace import Group, Mark, Signature, State, Trace

MOST_FRAMES = 256
MOST_BYTES = 1024 * 1024 * 1024
"""Of memory that a dump in JSON may take: 50,000 operations with the stacks of their calls."""
_MOST_GROUPS = 65_536

_TRAILING_NUMBER = re.compile(r"(?<!\d)(\d{1,7})(?:\.(?:json|pkl|pickle))?$")


def rank_of_file_name(name: str) -> int | None:
    """Return the rank that a dump's file name ends with, e.g. 5 of `nccl_trace_rank_node02_5`; None if none."""
    match = _TRAILING_NUMBER.search(name)
    return None if match is None else int(match[1])


def parse_dump(data: bytes, *, most_bytes: int = MOST_BYTES, most_records: int = MOST_RECORDS) -> Trace:
    """Read one rank's dump. Raises UnreadableDump, quoting what it met.

    `most_bytes` bounds the memory that JSON may take while it is read.
    """
    repeats = Repeats()
    if data[:1] == b"\x80":
        smaller = repeats.take_out(data)
        if len(repeats):
            try:
                return _build(load_plain(smaller), repeats)
            except UnreadableDump:
                pass  # it only looked like PyTorch's layout, or is broken: read all of it to find out
    return _build(_loaded(data, most_bytes), None, is_tree=data[:1] != b"\x80", most_records=most_records)


def build_trace(dump: Mapping[str, Any], kinds: Kinds | Repeats) -> Trace:
    """Read a dump that was put together from something else than a file. Raises UnreadableDump."""
    return _build(dump, kinds, is_tree=True)


def _build(
    dump: Any, repeats: Repeats | Kinds | None, *, is_tree: bool = False, most_records: int = MOST_RECORDS
) -> Trace:
    if isinstance(dump, list) and any(isinstance(entry, dict) and "profiling_name" in entry for entry in dump[:1]):
        dump = {"entries": dump}  # PyTorch 2.2 wrote nothing else
    if not isinstance(dump, Mapping) or not ({"entries", "pg_status", "pg_config"} & dump.keys()):
        raise UnreadableDump("not a flight-recorder dump: it has no entries, pg_config or pg_status")
    return _Builder(is_tree=is_tree, most_records=most_records).build(dump, repeats)


def _loaded(data: bytes, most_bytes: int) -> Any:
    if data[:1] == b"\x80":
        return load_plain(data)
    try:
        return read_json_dump(data, most_bytes=most_bytes)
    except TooCostly as error:
        raise UnreadableDump(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableDump(f"neither pickle nor JSON: {quoted(data)}") from error


class _Row(NamedTuple):
    """One entry: what it shares with all of its kind, and what is its own."""

    shared: tuple[int, int, int, bool, State, int]
    """Columns `_SHARED`."""
    numbers: tuple[int, int, int, int, int, int]
    """Columns `_NUMBERS`."""
    pg_id: str


_BYTE = 256
_OF_SIGNATURE = ("profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_MOST_WORK = 30_000_000
"""Parts of all entries: three hundred thousand of them with a hundred frames and numbers each."""
_WORK_CHARACTERS = 8
_LONGEST_THREAD_ID = 64
_SHARED = ("group", "signature", "call_site", "is_p2p", "state", "thread")
_NUMBERS = ("collective_seq", "p2p_seq", "op_id", "created_ns", "started_ns", "completed_ns")


class _Builder:
    """Fills the tables and columns of one trace."""

    def __init__(self, *, is_tree: bool, most_records: int) -> None:
        """`is_tree`: no value is in the dump twice, as a pickle's values may be."""
        self.is_tree = is_tree
        self.most_records = most_records
        self.groups: dict[tuple[str, str], int] = {}
        self.group_values: list[Group] = []
        self.signatures: dict[Signature, int] = {}
        self.raw_signatures: dict[Hashable, tuple[int, str]] = {}
        self.call_sites: dict[tuple[Frame, ...], int] = {(): 0}
        self.frames: dict[tuple[Any, Any, int], Frame] = {}
        self.stacks: dict[Hashable, int] = {}
        self.threads: dict[str, int] = {}
        self.timeouts: dict[int, int] = {}
        self.work = 0
        self.is_hooked = False

    def build(self, dump: Mapping[str, Any], repeats: Repeats | Kinds | None) -> Trace:
        """`repeats` tells what was taken out of the entries; None: nothing has been looked for."""
        self._read_config(parse_mapping(dump.get("pg_config")))
        given: Sequence[Any] = parse_sequence(dump.get("entries"), most=self.most_records)
        if repeats is None:
            given, repeats = put_together(given, most_parts=_MOST_WORK) or (given, Repeats())
        entries, order = repeats.unfold(given)
        rows = [self._row(parse_mapping(entry)) for entry in entries]
        columns = {name: _spread([row.shared[at] for row in rows], order) for at, name in enumerate(_SHARED)}
        numbers = repeats.weave([row.numbers for row in rows], order)
        columns |= {name: narrow(at_least_zero(column)) for name, column in zip(_NUMBERS, numbers, strict=True)}
        if self.is_hooked:
            columns = as_recorded_natively(columns)
        columns, group_of_id = of_last_lives(columns, [(row.pg_id, row.shared[0]) for row in rows], order)
        first_op = dict(zip(reversed(columns["group"]), reversed(columns["op_id"]), strict=True))
        marks = _marks(parse_mapping(dump.get("pg_status")), group_of_id)
        if self.is_hooked:
            marks = marks_by_collectives(marks, columns)
        finished = columns["state"].count(State.COMPLETED)
        settle_batches(columns, tuple(self.signatures))
        return Trace.model_construct(
            version=parse_text(dump.get("version", "")),
            library=parse_text(dump.get("comm_lib_version") or dump.get("nccl_version") or ""),
            active_only=finished == 0 and any(mark.completed is not None for mark in marks),
            truncated=any(first > 1 for first in first_op.values()),
            on_new_thread=_on_new_thread(columns) if len(self.threads) > 1 else (),
            groups=tuple(self._with_timeouts()),
            signatures=tuple(self.signatures),
            call_sites=tuple(self.call_sites),
            marks=marks,
            group=columns["group"],
            signature=columns["signature"],
            call_site=columns["call_site"],
            collective_seq=columns["collective_seq"],
            p2p_seq=columns["p2p_seq"],
            op_id=columns["op_id"],
            is_p2p=columns["is_p2p"],
            state=columns["state"],
            created_ns=columns["created_ns"],
            started_ns=columns["started_ns"],
            completed_ns=columns["completed_ns"],
        )

    def _read_config(self, config: Mapping[str, Any]) -> None:
        for key, raw in config.items():
            group = parse_mapping({"ranks": raw} if isinstance(raw, list | tuple) else raw)  # PyTorch 2.3: ranks alone
            name = parse_text(group.get("name", key))
            if name or group.get("ranks") not in ("[]", "", None):
                self._count(len(group["ranks"]) // _WORK_CHARACTERS if isinstance(group.get("ranks"), str) else 0)
                members, order = parse_members(group.get("ranks"))
                self._group(name, parse_text(group.get("desc", "")), members, order)

    def _group(
        self, name: str, description: str, members: str | None = None, order: tuple[int, ...] | None = None
    ) -> int:
        index = self.groups.get((name, description))
        if index is None:
            if len(self.groups) >= _MOST_GROUPS:
                raise UnreadableDump(f"more than {_MOST_GROUPS} groups")
            index = self.groups[name, description] = len(self.groups)
            self.group_values.append(Group(name=name, description=description, members=members, order=order))
        return index

    def _with_timeouts(self) -> Iterator[Group]:
        for index, group in enumerate(self.group_values):
            timeout_ms = self.timeouts.get(index)
            yield group if timeout_ms is None else group.model_copy(update={"timeout_ms": timeout_ms})

    def _row(self, entry: Mapping[str, Any]) -> _Row:
        pg_id = parse_text(entry.get("pg_id", ""))
        group = self._entry_group(entry, pg_id)
        timeout_ms = entry.get("timeout_ms")
        if isinstance(timeout_ms, int) and 0 < timeout_ms < 2**63:
            self.timeouts[group] = max(timeout_ms, self.timeouts.get(group, 0))
        signature, backend = self._signature(entry)
        state = parse_state(entry, backend)
        call_site = self._call_site(entry.get("frames"))
        numbers = (
            parse_collective(entry),
            parse_number(entry.get("p2p_seq_id")),
            parse_number(entry.get("op_id")),
            parse_created(entry),
            parse_number(entry.get("time_discovered_started_ns")),
            parse_number(entry.get("time_discovered_completed_ns")),
        )
        thread = self.threads.setdefault(str(entry.get("thread_id", ""))[:_LONGEST_THREAD_ID], len(self.threads))
        return _Row((group, signature, call_site, bool(entry.get("is_p2p")), state, thread), numbers, pg_id)

    def _entry_group(self, entry: Mapping[str, Any], pg_id: str) -> int:
        named = entry.get("process_group")
        if isinstance(named, list | tuple) and len(named) == 2:
            known = self.groups.get((named[0], named[1])) if type(named[0]) is type(named[1]) is str else None
            return self._group(parse_text(named[0]), parse_text(named[1])) if known is None else known
        return self._group(pg_id, "")

    def _signature(self, entry: Mapping[str, Any]) -> tuple[int, str]:
        """Return the signature's index and its backend. Thousands of entries differ little in it: read each once.

        By all that it holds, or of a pickle, where that may be endless, by the places where its parts are kept alive.
        """
        values = [entry.get(name) for name in _OF_SIGNATURE]
        if not self.is_tree:  # a small pickle may hold one list in a million places
            self._count(parts_of(values))
        key = signature_key(values) if self.is_tree else tuple(map(id, values))
        known = self.raw_signatures.get(key)
        if known is None:
            parts = {name: read_part(raw) for name, raw in zip(_OF_SIGNATURE, values, strict=True)}
            known = self.raw_signatures[key] = self._new_signature(parts)
        return known

    def _new_signature(self, entry: Mapping[str, Any]) -> tuple[int, str]:
        name = parse_text(entry.get("profiling_name", ""))
        backend, op, source, target = parse_operation(name)
        self.is_hooked |= is_hooked(name)
        sides = [
            (parse_sizes(entry.get(f"{side}_sizes")), parse_texts(entry.get(f"{side}_dtypes")))
            for side in ("input", "output")
        ]
        if op == "scatter" and is_handed_out(sides[1][0]):
            sides.reverse()
        (into, into_types), (out, out_types) = sides
        signature = Signature(
            op=op,
            backend=backend,
            input_sizes=into,
            input_dtypes=into_types,
            output_sizes=out,
            output_dtypes=out_types,
            source=source,
            target=target,
        )
        return self.signatures.setdefault(signature, len(self.signatures)), backend

    def _count(self, parts: int) -> None:
        """Take note of so many parts. A small pickle may hold one list of thousands in a million places."""
        self.work += parts
        if self.work > _MOST_WORK:
            raise UnreadableDump(f"its entries have more than {_MOST_WORK} parts in all")

    def _call_site(self, raw: Any) -> int:
        """Read a stack; one that entries share, once: by its text, or by its place, as the dump keeps it alive."""
        if not raw:
            return 0
        key = bytes(raw) if isinstance(raw, Raw) else id(raw)
        known = self.stacks.get(key)
        if known is None:
            frames = parse_sequence(read_part(raw) or (), most=MOST_FRAMES)
            self._count(len(frames))
            places = tuple(map(id, frames)) if frames is raw else None
            known = self.stacks.get(places)
            if known is None:
                stack = tuple(map(self._frame, reversed(frames)))
                known = self.call_sites.setdefault(stack, len(self.call_sites))
            self.stacks |= {key: known} if places is None else {key: known, places: known}
        return known

    def _frame(self, raw: Any) -> Frame:
        """Read a frame; one that many stacks have, once."""
        fields = parse_mapping(raw)
        name, file, line = fields.get("name", ""), fields.get("filename", ""), fields.get("line")
        key = (name, file, line) if type(name) is type(file) is str and type(line) is int else None
        frame = None if key is None else self.frames.get(key)
        if frame is None:
            frame = Frame(parse_text(name), parse_text(file), parse_number(line))
            if key is not None:
                self.frames[key] = frame
        return frame


def _spread(values: Sequence[int], order: Sequence[int]) -> "array[int]":
    """Give each record the value of its row, in C: there are millions of records and few rows."""
    column = narrow(values)
    if len(column) <= _BYTE and column.typecode == "B":
        return array("B", bytes(order).translate(column.tobytes().ljust(_BYTE)))
    return array(column.typecode, map(column.__getitem__, order))


def _on_new_thread(columns: "Mapping[str, array[int]]") -> tuple[int, ...]:
    """Return the groups whose oldest unfinished operation comes from a thread that had issued none there before."""
    groups, threads, found, seen = columns["group"], columns["thread"], list[int](), set[int]()
    for at, state in enumerate(columns["state"]):
        if state == State.COMPLETED or groups[at] in seen:
            continue
        seen.add(groups[at])
        before = [threads[other] for other in range(at) if groups[other] == groups[at]]
        if before and threads[at] not in before:
            found.append(groups[at])
    return tuple(found)


def _marks(status: Mapping[str, Any], group_of_id: Mapping[str, int]) -> tuple[Mark, ...]:
    known = ((group_of_id.get(parse_text(pg_id)), parse_mapping(raw)) for pg_id, raw in status.items())
    return tuple(
        Mark(
            group=group,
            issued=parse_mark(raw.get("last_enqueued_collective")),
            started=parse_mark(raw.get("last_started_collective")),
            completed=parse_mark(raw.get("last_completed_collective")),
        )
        for group, raw in known
        if group is not None
    )
