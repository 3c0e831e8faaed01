"""PyTorch's flight recorder: a dump, pickled or JSON, becomes a `Trace`.

Format: torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.0 to 2.10, its forks for other backends,
and JSON as the worker server's `fr_trace_json` writes it. Facts that decide correctness:

- Gloo leaves `state` at "scheduled" for ever; an operation that has ended is `retired`. On NCCL "retired"
  without "completed" means that it timed out.
- `pg_status` is keyed by a per-process index, which only the entries tie to a group.
- `pg_config` may be empty (Gloo): then nobody says who the members are.
- Senders and receivers in `profiling_name` are group ranks.
- The parts of a batch stay "scheduled"; the entry that ends it tells (see `coalesced`).
"""

import json
import re
from array import array
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from shared.coalesced import settle_batches
from shared.errors import UnreadableDump, quoted
from shared.ranks import MOST_RANKS, fold
from shared.safe_pickle import load_plain
from shared.stacks import Frame
from shared.trace import COLUMNS, Group, Mark, Signature, State, Trace

MOST_RECORDS = 1_000_000
MOST_TENSORS = 65_536
MOST_DIMENSIONS = 64
MOST_FRAMES = 256
MOST_TEXT = 512
_MOST_GROUPS = 65_536

_TRAILING_NUMBER = re.compile(r"(?<!\d)(\d{1,7})(?:\.(?:json|pkl|pickle))?$")
# nccl:recv 3<-0      gloo:send 1->2
_PEERS = re.compile(r"(?P<op>\w+) (?P<one>\d{1,7})(?P<arrow>->|<-)(?P<other>\d{1,7})")
_CANONICAL = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_base": "all_to_all_single",
    "allgather_coalesced": "all_gather_coalesced",
    "allreduce_coalesced": "all_reduce_coalesced",
    "all_reduce_barrier": "barrier",
}


def rank_of_file_name(name: str) -> int | None:
    """Return the rank that a dump's file name ends with, e.g. 5 of `nccl_trace_rank_node02_5`; None if none."""
    match = _TRAILING_NUMBER.search(name)
    return None if match is None else int(match[1])


def parse_dump(data: bytes) -> Trace:
    """Read one rank's dump. Raises UnreadableDump, quoting what it met."""
    dump = _loaded(data)
    if not isinstance(dump, Mapping) or not ({"entries", "pg_status", "pg_config"} & dump.keys()):
        raise UnreadableDump("no flight-recorder dump: it has neither entries nor pg_config nor pg_status")
    return _Builder().build(dump)


def _loaded(data: bytes) -> Any:
    if data[:1] == b"\x80":
        return load_plain(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableDump(f"neither pickle nor JSON: {quoted(data)}") from error


@lru_cache(maxsize=4096)
def parse_operation(profiling_name: str) -> tuple[str, str, int | None, int | None]:
    """Split e.g. `nccl:recv 3<-0` into (backend, canonical op, source group rank, target group rank)."""
    backend, colon, rest = profiling_name.partition(":")
    if not colon:
        backend, rest = "", profiling_name
    peers = _PEERS.fullmatch(rest)
    if peers is None:
        op = rest.lower().replace(":", "_")
        return backend, _CANONICAL.get(op, op), None, None
    one, other = int(peers["one"]), int(peers["other"])
    source, target = (one, other) if peers["arrow"] == "->" else (other, one)
    return backend, peers["op"].lower(), source, target


class _Builder:
    """Fills the tables and columns of one trace."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], int] = {}
        self.group_values: list[Group] = []
        self.group_of_id: dict[str, int] = {}
        self.signatures: dict[Signature, int] = {}
        self.call_sites: dict[tuple[Frame, ...], int] = {(): 0}
        self.columns: dict[str, array[int]] = {name: array("q") for name in COLUMNS}
        self.first_op: dict[int, int] = {}
        self.finished = 0

    def build(self, dump: Mapping[str, Any]) -> Trace:
        self._read_config(_mapping(dump.get("pg_config")))
        for entry in _sequence(dump.get("entries"), most=MOST_RECORDS):
            self._add(_mapping(entry))
        marks = self._marks(_mapping(dump.get("pg_status")))
        settle_batches(self.columns, tuple(self.signatures))
        return Trace(
            version=_text(dump.get("version", "")),
            library=_text(dump.get("comm_lib_version") or dump.get("nccl_version") or ""),
            active_only=self.finished == 0 and any(mark.completed is not None for mark in marks),
            truncated=any(first > 1 for first in self.first_op.values()),
            groups=tuple(self.group_values),
            signatures=tuple(self.signatures),
            call_sites=tuple(self.call_sites),
            marks=marks,
            **self.columns,
        )

    def _read_config(self, config: Mapping[str, Any]) -> None:
        for key, raw in config.items():
            group = _mapping(raw)
            name = _text(group.get("name", key))
            if name or group.get("ranks") not in ("[]", "", None):
                self._group(name, _text(group.get("desc", "")), _members(group.get("ranks")))

    def _group(self, name: str, description: str, order: tuple[int, ...] | None = None) -> int:
        index = self.groups.get((name, description))
        if index is None:
            if len(self.groups) >= _MOST_GROUPS:
                raise UnreadableDump(f"more than {_MOST_GROUPS} groups")
            index = self.groups[name, description] = len(self.groups)
            shuffled = order is not None and list(order) != sorted(order)
            self.group_values.append(
                Group(
                    name=name,
                    description=description,
                    members=None if order is None else fold(order),
                    order=order if shuffled else None,
                )
            )
        return index

    def _add(self, entry: Mapping[str, Any]) -> None:
        group = self._entry_group(entry)
        signature, backend = self._signature(entry)
        state = _state(entry, backend)
        op_id = _number(entry.get("op_id"))
        self.finished += state is State.COMPLETED
        self.first_op.setdefault(group, op_id)
        row = (
            group,
            signature,
            self._call_site(entry.get("frames")),
            _number(entry.get("collective_seq_id", entry.get("seq_id"))),
            _number(entry.get("p2p_seq_id")),
            op_id,
            bool(entry.get("is_p2p")),
            state,
            _number(entry.get("time_created_ns")),
            _number(entry.get("time_discovered_started_ns")),
            _number(entry.get("time_discovered_completed_ns")),
        )
        for name, number in zip(COLUMNS, row, strict=True):
            self.columns[name].append(number)

    def _entry_group(self, entry: Mapping[str, Any]) -> int:
        named = entry.get("process_group")
        pg_id = str(entry.get("pg_id", ""))[:MOST_TEXT]
        if isinstance(named, list | tuple) and len(named) == 2:
            index = self._group(_text(named[0]), _text(named[1]))
        else:
            index = self._group(pg_id, "")
        self.group_of_id[pg_id] = index
        return index

    def _signature(self, entry: Mapping[str, Any]) -> tuple[int, str]:
        name = _text(entry.get("profiling_name", ""))
        backend, op, source, target = parse_operation(name)
        signature = Signature(
            op=op,
            backend=backend,
            input_sizes=_sizes(entry.get("input_sizes")),
            input_dtypes=_texts(entry.get("input_dtypes")),
            output_sizes=_sizes(entry.get("output_sizes")),
            output_dtypes=_texts(entry.get("output_dtypes")),
            source=source,
            target=target,
        )
        return self.signatures.setdefault(signature, len(self.signatures)), backend

    def _call_site(self, raw: Any) -> int:
        if not raw:
            return 0
        frames = [_mapping(frame) for frame in _sequence(raw, most=MOST_FRAMES)]
        stack = tuple(
            Frame(_text(f.get("name", "")), _text(f.get("filename", "")), _number(f.get("line")))
            for f in reversed(frames)
        )
        return self.call_sites.setdefault(stack, len(self.call_sites))

    def _marks(self, status: Mapping[str, Any]) -> tuple[Mark, ...]:
        known = ((self.group_of_id.get(str(pg_id)), _mapping(raw)) for pg_id, raw in status.items())
        return tuple(
            Mark(
                group=group,
                issued=_mark(raw.get("last_enqueued_collective")),
                started=_mark(raw.get("last_started_collective")),
                completed=_mark(raw.get("last_completed_collective")),
            )
            for group, raw in known
            if group is not None
        )


def _state(entry: Mapping[str, Any], backend: str) -> State:
    said = entry.get("state")
    if said == "completed" or (backend == "gloo" and entry.get("retired") is True):
        return State.COMPLETED
    return State.STARTED if said == "started" else State.ISSUED


def _members(raw: Any) -> tuple[int, ...] | None:
    """Read `"[0, 1, 2, 3]"`, a list written as a string; `"[]"` means that the dump does not say."""
    numbers = re.findall(r"[0-9]{1,7}", raw) if isinstance(raw, str) and len(raw) < 16 * MOST_RANKS else []
    return tuple(dict.fromkeys(int(number) for number in numbers)) or None


def _mark(raw: Any) -> int | None:
    number = _number(raw, unset=-1)
    return None if number < 0 else number


def _number(raw: Any, *, unset: int = 0) -> int:
    """Read a number that may be an int, a decimal string, None or missing. Raises UnreadableDump."""
    if raw is None:
        return unset
    try:
        number = int(raw) if isinstance(raw, int | str) and len(str(raw)) < 20 else None
    except ValueError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise UnreadableDump(f"{quoted(repr(raw)[:80])} stands where a number should")
    return number


def _text(raw: Any) -> str:
    return raw[:MOST_TEXT] if isinstance(raw, str) else str(raw)[:MOST_TEXT] if isinstance(raw, int) else ""


def _texts(raw: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in _sequence(raw, most=MOST_TENSORS))


def _sizes(raw: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(_number(size) for size in _sequence(sizes, most=MOST_DIMENSIONS))
        for sizes in _sequence(raw, most=MOST_TENSORS)
    )


def _sequence(raw: Any, *, most: int) -> list[Any] | tuple[Any, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple) or len(raw) > most:
        raise UnreadableDump(f"{type(raw).__name__} stands where a list of at most {most} should")
    return raw


def _mapping(raw: Any) -> Mapping[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UnreadableDump(f"{type(raw).__name__} stands where a mapping should")
    return raw
