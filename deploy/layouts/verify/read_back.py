"""Reads the recorders and process groups of another process by the table alone, as plainly as can be.

For checking the table, on processes that we have started ourselves: nothing is bounded here, and what does not fit
ends in an exception. What the agent reads ranks by is in `agent/sources/recorder/`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.layouts.probe import Structure

_BEHIND_VTABLE = 16
_MOST_SCANNED = 1 << 30


class Memory:
    """The memory of a process that stands still."""

    def __init__(self, pid: int) -> None:
        self._file = open(f"/proc/{pid}/mem", "rb", buffering=0)  # noqa: SIM115 -- until close()
        self._maps = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]

    def read(self, address: int, size: int) -> bytes:
        self._file.seek(address)
        return self._file.read(size)

    def number(self, address: int, size: int = 8) -> int:
        return int.from_bytes(self.read(address, size), "little", signed=True)

    def base(self, library: str) -> int:
        """Return where a library begins that the process has loaded."""
        return min(int(line[0].partition("-")[0], 16) for line in self._maps if line[-1].endswith(f"/{library}"))

    def heap(self) -> Iterator[tuple[int, bytes]]:
        """Yield the writable memory that is no file's: where it begins, and what is in it."""
        for line in self._maps:
            start, end = (int(part, 16) for part in line[0].split("-"))
            if line[1].startswith("rw") and line[4] == "0" and end - start < _MOST_SCANNED:
                yield start, self.read(start, end - start)

    def close(self) -> None:
        self._file.close()


class Reader:
    """Values by the names that the table gives them."""

    def __init__(self, memory: Memory, structures: Mapping[str, Structure]) -> None:
        self.memory = memory
        self._structures = structures

    def has(self, structure: str, field: str) -> bool:
        return field in self._structures.get(structure, {"fields": {}})["fields"]

    def size(self, structure: str) -> int:
        return self._structures[structure]["size"]

    def at(self, structure: str, field: str, address: int) -> int:
        return address + self._structures[structure]["fields"][field][0]

    def number(self, structure: str, field: str, address: int) -> int:
        offset, size, *_ = self._structures[structure]["fields"][field]
        return self.memory.number(address + offset, size)

    def optional(self, structure: str, field: str, address: int) -> int | None:
        offset, _, size = self._structures[structure]["fields"][field]
        return self.memory.number(address + offset, size) if self.number(structure, f"{field}.set", address) else None

    def string(self, address: int) -> str:
        data = self.number("string", "data", address)
        if self.has("string", "length"):
            length = self.number("string", "length", address)
        else:
            length = self.number("string_head", "length", data - self._structures["string_head"]["size"])
        return self.memory.read(data, length).decode()

    def text(self, structure: str, field: str, address: int) -> str:
        return self.string(self.at(structure, field, address))

    def pair(self, address: int) -> tuple[str, str]:
        return self.text("string_pair", "first", address), self.text("string_pair", "second", address)

    def items(self, structure: str, field: str, address: int) -> range:
        """Return where the items of a vector lie."""
        offset, _, item = self._structures[structure]["fields"][field]
        begin, end = (self.number("vector", name, address + offset) for name in ("begin", "end"))
        return range(begin, end, item)

    def numbers(self, structure: str, field: str, address: int) -> list[int]:
        """Return the numbers in a vector, or in a small one."""
        offset, size, item = self._structures[structure]["fields"][field]
        if size == self._structures["vector"]["size"]:
            places = self.items(structure, field, address)
        else:
            begin = self.number("small_vector", "begin", address + offset)
            places = range(begin, begin + item * self.number("small_vector", "size", address + offset), item)
        return [self.memory.number(place, item) for place in places]

    def registry(self, place: int) -> dict[str, int]:
        """Return the recorders of backends by name, of an unordered_map of strings to pointers."""
        found = {}
        node = self.number("unordered_map", "first", place)
        while node:
            pair = self.at("unordered_map_node", "value", node)
            found[self.string(pair)] = self.memory.number(pair + self.size("string"))
            node = self.number("unordered_map_node", "next", node)
        return found

    def objects(self, vtable: int) -> list[int]:
        """Return where objects of a class lie, by the address that they begin with."""
        wanted = (vtable + _BEHIND_VTABLE).to_bytes(8, "little")
        told = wanted.rstrip(b"\0")  # with its zeros the search takes several times as long: the heap is full of them
        found = []
        for start, data in self.memory.heap():
            at = data.find(told)
            while at >= 0:
                found += [start + at] if at % 8 == 0 and data[at : at + 8] == wanted else []
                at = data.find(told, at + 8)
        return found


_NUMBERS = {
    "id_": "record_id",
    "pg_id_": "pg_id",
    "collective_seq_id_": "collective_seq_id",
    "p2p_seq_id_": "p2p_seq_id",
    "op_id_": "op_id",
    "time_created_": "time_created_ns",
    "timeout_ms_": "timeout_ms",
    "isP2P_": "is_p2p",
    "retired_": "retired",
}
_DTYPES = {1: "Char", 4: "Long", 6: "Float", 15: "BFloat16"}


def _entry(reader: Reader, place: int) -> dict[str, Any]:
    """Return an entry in the words of PyTorch's own dump."""
    started = reader.optional("entry", "time_discovered_started_", place)
    completed = reader.optional("entry", "time_discovered_completed_", place)
    sizes = iter(reader.numbers("entry", "sizes_", place))
    found: dict[str, Any] = {
        name: reader.number("entry", field, place) for field, name in _NUMBERS.items() if reader.has("entry", field)
    }
    found |= {name: bool(found[name]) for name in ("is_p2p", "retired")}
    for way in ("input", "output"):
        found[f"{way}_sizes"] = [
            [next(sizes) for _ in range(count)] for count in reader.numbers("entry", f"{way}_dims_", place)
        ]
        if reader.has("entry", f"{way}_dtypes_"):
            found[f"{way}_dtypes"] = [_DTYPES[kind] for kind in reader.numbers("entry", f"{way}_dtypes_", place)]
    if reader.has("entry", "thread_name_"):
        found["thread_name"] = reader.text("entry", "thread_name_", place)
    return found | {
        "process_group": reader.pair(reader.at("entry", "pg_name_", place)),
        "profiling_name": reader.text("entry", "profiling_name_", place),
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": completed,
        "state": "scheduled" if completed is started is None else "started" if completed is None else "completed",
    }


def read_recorder(reader: Reader, recorder: int) -> list[dict[str, Any]]:
    """Return the entries of a recorder, in the words of PyTorch's own dump."""
    return [_entry(reader, place) for place in reader.items("recorder", "entries_", recorder)]


def read_groups(reader: Reader, kind: str, vtable: int) -> list[dict[str, Any]]:
    """Return the process groups of one kind, `gloo` or `nccl`: what tells them apart, and how far they are."""
    return sorted((_group(reader, kind, place) for place in reader.objects(vtable)), key=str)


def _group(reader: Reader, kind: str, place: int) -> dict[str, Any]:
    about = "nccl_options" if kind == "nccl2" else f"{kind}_options"
    options = reader.number(kind, "options_c10d_" if kind == "nccl2" else "options_", place)
    found: dict[str, Any] = {name: reader.number(kind, f"{name}_", place) for name in ("rank", "size")}
    for name in ("pg_uid_", "pg_name_"):
        if reader.has(kind, name):
            found["uid"] = reader.text(kind, name, place)
    if reader.has(about, "global_ranks_in_group"):
        # The world is told without its members.
        found["ranks"] = reader.numbers(about, "global_ranks_in_group", options) or list(range(found["size"]))
    for name in ("seqCollective_", "sequence_number_", "seq_"):
        if reader.has(kind, name):
            found["sequence"] = reader.number(kind, name, place)
    return found
