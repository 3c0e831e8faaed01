"""Makes of copied entries what the rank itself would have written into a dump, for the parser of dumps to read.

So a record from memory and one from the worker server go the same way, and mean the same. Entries that differ in
sequences and times alone are put together once: a loop issues the same operations again and again.

Keys and states are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; types of numbers those of
torch/headeronly/core/ScalarType.h.

On NCCL a rank asks the device how far each operation is when it writes a dump. In memory stands what the watchdog has
found out: that the group has come to an operation, and which ones it has seen completed.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from agent.proc.memory.process_memory import Unreadable
from agent.sources.recorder.memory.entries import CopiedEntry, Scalars, Shapes
from agent.sources.recorder.memory.recorder_header import Status
from shared.formats.recorder.like_entries import Kinds

_SCALAR_TYPES = (
    "Byte Char Short Int Long Half Float Double ComplexHalf ComplexFloat ComplexDouble Bool QInt8 QUInt8 QInt32 "
    "BFloat16 QUInt4x2 QUInt2x4 Bits1x8 Bits2x4 Bits4x2 Bits8 Bits16 Float8_e5m2 Float8_e4m3fn Float8_e5m2fnuz "
    "Float8_e4m3fnuz UInt16 UInt32 UInt64 UInt1 UInt2 UInt3 UInt4 UInt5 UInt6 UInt7 Int1 Int2 Int3 Int4 Int5 Int6 Int7 "
    "Float8_e8m0fnu Float4_e2m1fn_x2"
).split()
"""By number; versions only ever add some at the end."""
_MOST_DIMENSIONS = 64
_NUMBERS = 6

Frames = Sequence[Mapping[str, Any]]


class ShapesRead:
    """Takes shapes apart, each kind once."""

    def __init__(self) -> None:
        self._known: dict[Shapes, dict[str, Any]] = {}

    def fields(self, shapes: Shapes) -> dict[str, Any]:
        """Return sizes and types as fields of a dump. Raises Unreadable where they contradict each other."""
        found = self._known.get(shapes)
        if found is None:
            found = self._known[shapes] = _fields(shapes)
        return found


def _fields(shapes: Shapes) -> dict[str, Any]:
    inputs, outputs = _numbers(shapes.input_dims), _numbers(shapes.output_dims)
    sizes = _numbers(shapes.sizes)
    plausible = (
        len(inputs) == len(shapes.input_types)
        and len(outputs) == len(shapes.output_types)
        and all(0 <= count <= _MOST_DIMENSIONS for count in (*inputs, *outputs))
        and sum(inputs) + sum(outputs) == len(sizes)
    )
    if not plausible:
        raise Unreadable("an operation's sizes contradict each other")
    both = _split(sizes, (*inputs, *outputs))
    return {
        "input_sizes": both[: len(inputs)],
        "input_dtypes": list(map(_type_name, shapes.input_types, both)),
        "output_sizes": both[len(inputs) :],
        "output_dtypes": list(map(_type_name, shapes.output_types, both[len(inputs) :])),
    }


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


def _split(sizes: Sequence[int], counts: Sequence[int]) -> list[list[int]]:
    parts, at = [], 0
    for count in counts:
        parts.append(list(sizes[at : at + count]))
        at += count
    return parts


def _type_name(number: int, size: Sequence[int]) -> str:
    """What comes after the last type of a version is none: that of the tensor of who has no part in it, `[0]`."""
    if number < len(_SCALAR_TYPES):
        return _SCALAR_TYPES[number]
    return f"type {number}" if any(size) else "Undefined"


def dump_of(
    entries: Sequence[tuple[CopiedEntry, Frames]],
    statuses: Mapping[int, Status],
    members: Mapping[tuple[str, str], Sequence[int]],
    library: str,
) -> tuple[dict[str, Any], Kinds]:
    """Return a dump of entries, oldest first, with their frames, innermost first. Raises Unreadable."""
    of_kind, kinds = _kinds(entries, statuses)
    return {
        "comm_lib_version": library,
        "entries": of_kind,
        "pg_config": {
            number: {"name": name, "desc": description, "ranks": str(list(ranks))}
            for number, ((name, description), ranks) in enumerate(members.items())
        },
        "pg_status": {
            str(pg_id): {
                "last_enqueued_collective": status.issued,
                "last_started_collective": status.started,
                "last_completed_collective": status.completed,
            }
            for pg_id, status in statuses.items()
        },
    }, kinds


def _kinds(
    entries: Sequence[tuple[CopiedEntry, Frames]], statuses: Mapping[int, Status]
) -> tuple[list[dict[str, Any]], Kinds]:
    """Return an entry of each kind, and what tells the others apart."""
    shapes = ShapesRead()
    with_pairs = {entry.plain.pg_id for entry, _ in entries if entry.plain.is_p2p}
    known: dict[tuple[Any, ...], int] = {}
    found: list[dict[str, Any]] = []
    order, rows = [], []
    for entry, frames in entries:
        plain = entry.plain
        state = _state(entry, None if plain.pg_id in with_pairs else statuses.get(plain.pg_id))
        flags = plain.timeout_ms, plain.is_p2p, plain.retired, plain.has_duration
        kind = plain.pg_id, entry.group, entry.profiling_name, entry.shapes, flags, state, id(frames)
        at = known.get(kind)
        if at is None:
            at = known[kind] = len(found)
            found.append(_entry(entry, frames, shapes, state))
        order.append(at)
        rows.append(_numbers_of(plain))
    return found, Kinds(order, [array("q", column) for column in zip(*rows, strict=True)] or [array("q")] * _NUMBERS)


def _numbers_of(plain: Scalars) -> tuple[int, ...]:
    """Return the sequences and times of an entry, in the order of the columns of a trace."""
    started = plain.started_ns if plain.has_started else 0
    completed = plain.completed_ns if plain.has_completed else 0
    return plain.collective_seq, plain.p2p_seq, plain.op_id, plain.created_ns, started, completed


def _entry(entry: CopiedEntry, frames: Frames, shapes: ShapesRead, state: str) -> dict[str, Any]:
    plain = entry.plain
    return {
        "pg_id": plain.pg_id,
        "process_group": entry.group,
        "profiling_name": entry.profiling_name,
        "timeout_ms": plain.timeout_ms,
        "is_p2p": bool(plain.is_p2p),
        "retired": bool(plain.retired),
        "duration_ms": 0 if plain.has_duration else None,
        "state": state,
        "frames": frames,
        **shapes.fields(entry.shapes),
    }


def _state(entry: CopiedEntry, status: Status | None) -> str:
    """Return how far an operation is. `status`: of its group, if the group's numbers are of collectives alone."""
    plain = entry.plain
    if plain.has_completed:
        return "completed"
    reached = status is not None and status.started is not None and plain.collective_seq <= status.started
    return "started" if plain.has_started or (reached and not plain.retired) else "scheduled"
