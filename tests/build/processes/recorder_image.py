"""Flight recorders as they lie in memory, of any layout that is known, built byte by byte."""

import os
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from agent.deadline import Deadline
from agent.proc.memory.process_memory import ProcessMemory
from agent.proc.memory.torch_layouts import Layout
from agent.proc.python.code_objects import _VERSIONS
from agent.proc.python.objects import ASCII_AT

BASE = 0x10_0000_0000
"""The lowest address of an image: nothing else lies there."""


@dataclass(frozen=True)
class Operation:
    """One entry of a recorder."""

    id: int
    group: tuple[str, str] = ("0", "default_pg")
    pg_id: int = 0
    name: str = "gloo:all_reduce"
    sequence: int = 1
    sizes: tuple[tuple[int, ...], ...] = ((4, 2),)
    epoch: int = 0
    retired: bool = True
    completed: bool = False
    stack: tuple[tuple[int, int], ...] = ()


@dataclass
class RecorderImage:
    """The memory of a process that holds one flight recorder, to be found at `pointer`."""

    layout: Layout
    data: bytearray = field(default_factory=bytearray)

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        address = BASE + len(self.data)
        self.data += bytes((size + 15) // 16 * 16)
        return address

    def put(self, address: int, content: bytes) -> None:
        """Write over what lies at an address."""
        start = address - BASE
        self.data[start : start + len(content)] = content

    def number(self, address: int, value: int, size: int = 8) -> None:
        """Write a number."""
        self.put(address, value.to_bytes(size, "little", signed=value < 0))

    def string(self, address: int, text: str) -> None:
        """Write a std::string."""
        content = text.encode()
        if self.layout.old_strings:
            begin = self.allocate(24 + len(content) + 1) + 24
            self.put(begin - 24, struct.pack("<QQQ", len(content), len(content), 0))
            self.number(address, begin)
        else:
            begin = address + 16 if len(content) <= 15 else self.allocate(len(content) + 1)
            self.put(address, struct.pack("<QQ", begin, len(content)))
        self.put(begin, content)

    def pair(self, address: int, first: str, second: str) -> None:
        """Write a std::tuple of two strings."""
        about = self.layout["string_pair"]
        self.string(address + about.offset("first"), first)
        self.string(address + about.offset("second"), second)

    def vector(self, address: int, content: bytes, room: int = 0) -> None:
        """Write a std::vector."""
        begin = self.allocate(max(len(content), room))
        self.put(begin, content)
        self.put(address, struct.pack("<QQQ", begin, begin + len(content), begin + max(len(content), room)))

    def few(self, address: int, field: str, numbers: Sequence[int], inline: int) -> None:
        """Write a c10::SmallVector of numbers, which is a field of an entry."""
        about = self.layout["entry"].fields[field]
        at = address + about.offset
        begin = at + 16 if len(numbers) <= inline else self.allocate(about.item * len(numbers))
        self.put(at, struct.pack("<QII", begin, len(numbers), max(len(numbers), inline)))
        self.put(begin, struct.pack(f"<{len(numbers)}{'q' if about.item == 8 else 'i'}", *numbers))

    def map(self, address: int, size: int, count: int) -> list[int]:
        """Write a std::map as a list of nodes; return where their values of `size` bytes go."""
        tree, node = self.layout["map"], self.layout["map_node"]
        nodes = [self.allocate(node.offset("value") + size) for _ in range(count)]
        for parent, child in pairwise(nodes):
            self.number(parent + node.offset("right"), child)
        self.number(address + tree.offset("root"), nodes[0] if nodes else 0)
        self.number(address + tree.offset("count"), count)
        return [at + node.offset("value") for at in nodes]

    def entry(self, address: int, operation: Operation) -> None:
        """Write an entry."""
        about = self.layout["entry"]
        sizes = [size for shape in operation.sizes for size in shape]
        numbers = {
            "id_": operation.id,
            "reset_epoch_": operation.epoch,
            "pg_id_": operation.pg_id,
            "collective_seq_id_": operation.sequence,
            "op_id_": operation.sequence,
            "time_created_": 1_700_000_000_000_000_000 + operation.id,
            "timeout_ms_": 600_000,
            "time_discovered_completed_": 5 if operation.completed else 0,
        }
        for name, value in numbers.items():
            if name in about.fields:
                self.number(address + about.offset(name), value)
        self.number(address + about.offset("time_discovered_completed_.set"), operation.completed, 1)
        self.number(address + about.offset("retired_"), operation.retired, 1)
        self.pair(address + about.offset("pg_name_"), *operation.group)
        self.string(address + about.offset("profiling_name_"), operation.name)
        types = bytes([6] * len(operation.sizes))
        for name in ("input", "output"):
            self.few(address, f"{name}_dims_", [len(shape) for shape in operation.sizes], 4)
            self.vector(address + about.offset(f"{name}_dtypes_"), types)
        self.few(address, "sizes_", sizes + sizes, 8)
        if operation.stack:
            self._traceback(address + about.offset("traceback_"), operation.stack)

    def _traceback(self, address: int, stack: Sequence[tuple[int, int]]) -> None:
        about = self.layout["traceback"]
        traceback = self.allocate(about.size)
        self.number(address, traceback)
        frames = b"".join(struct.pack("<Qii", code, instruction, 0) for code, instruction in stack)
        self.vector(traceback + about.offset("frames_"), frames)

    def recorder(
        self,
        operations: Sequence[Operation],
        *,
        most: int = 2000,
        next_one: int | None = None,
        next_id: int | None = None,
        epoch: int = 0,
        statuses: Mapping[int, tuple[int, int, int]] | None = None,
        members: Mapping[tuple[str, str], Sequence[int]] | None = None,
    ) -> int:
        """Write a recorder with entries as they lie in its ring; return its address."""
        about, entry = self.layout["recorder"], self.layout["entry"]
        address, ring = self.allocate(about.size), self.allocate(entry.size * len(operations))
        end = ring + entry.size * len(operations)
        self.number(address + about.offset("enabled_"), 1, 1)
        self.put(address + about.offset("entries_"), struct.pack("<QQQ", ring, end, end))
        appended = len(operations) if "reset_epoch_" in about.fields else 0  # older ones move it once the ring is full
        header = {
            "max_entries_": most,
            "next_": appended if next_one is None else next_one,
            "id_": len(operations) if next_id is None else next_id,
            "reset_epoch_": epoch,
        }
        for name, value in header.items():
            if name in about.fields:
                self.number(address + about.offset(name), value)
        for place, operation in enumerate(operations):
            self.entry(ring + place * entry.size, operation)
        if "all_pg_status_" in about.fields:
            self._statuses(address + about.offset("all_pg_status_"), statuses or {})
        self._members(address + about.offset("pg_name_to_ranks_"), members or {})
        for name in ("comm_lib_version_", "nccl_version_"):
            if name in about.fields:
                self.string(address + about.offset(name), "2.27.5")
        return address

    def _statuses(self, address: int, statuses: Mapping[int, tuple[int, int, int]]) -> None:
        about = self.layout["status"]
        values = self.map(address, 24, len(statuses))
        for at, (pg_id, numbers) in zip(values, statuses.items(), strict=True):
            status = self.allocate(about.size)
            self.put(at, struct.pack("<QQQ", pg_id, status, 0))
            for name, number in zip(("lastEnqueuedSeq", "lastStartedSeq", "lastCompletedSeq"), numbers, strict=True):
                self.number(status + about.offset(name), number)

    def _members(self, address: int, members: Mapping[tuple[str, str], Sequence[int]]) -> None:
        pair = self.layout["string_pair"]
        values = self.map(address, pair.size + 24, len(members))
        for at, (names, ranks) in zip(values, members.items(), strict=True):
            self.pair(at, *names)
            self.vector(at + pair.size, struct.pack(f"<{len(ranks)}Q", *ranks))

    def code_object(self, version: str, file: str, function: str, table: bytes) -> int:
        """Write a code object as a version of Python does, and return its address."""
        about = _VERSIONS[version]
        types = {name: self._type(name) for name in ("code", "str", "bytes")}
        code, lines = self.allocate(200), self.allocate(40 + len(table))
        self.number(code + 8, types["code"])
        self.number(code + about.first_line, 10, 4)
        for offset, text in ((about.filename, file), (about.name, function)):
            self.number(code + offset, self._python_string(types["str"], text, version))
        self.put(lines + 8, struct.pack("<QQ", types["bytes"], len(table)))
        self.put(lines + 32, table)
        self.number(code + about.table, lines)
        return code

    def _type(self, name: str) -> int:
        text, kind = self.allocate(16), self.allocate(64)
        self.put(text, name.encode() + b"\0")
        self.number(kind + 24, text)
        return kind

    def _python_string(self, kind: int, text: str, version: str) -> int:
        width, at = (1, ASCII_AT[version]) if text.isascii() else (2, 2 * ASCII_AT[version] - 24)
        string = self.allocate(at + width * len(text))
        flags = (width | 1 << 3 | text.isascii() << 4) << (16 if version == "3.14" else 2) | 1
        self.put(string + 8, struct.pack("<QQqI", kind, len(text), -1, flags))
        self.put(string + at, text.encode("latin-1" if width == 1 else "utf-16-le"))
        return string

    @contextmanager
    def memory(self, *, cut: int = 0) -> Iterator[ProcessMemory]:
        """Let the image be read as a process's memory, all but its last `cut` bytes."""
        with memory_of(bytes(self.data[: len(self.data) - cut])) as memory:
            yield memory


@contextmanager
def memory_of(data: bytes) -> Iterator[ProcessMemory]:
    """Let bytes be read as a process's memory from `BASE` on, from a file in the place of /proc/PID/mem."""
    with tempfile.TemporaryFile() as file:
        os.pwrite(file.fileno(), data + bytes(4096), BASE)
        yield ProcessMemory(file.fileno(), os.getpid(), Deadline(30.0))
