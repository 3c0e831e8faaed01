"""Strings, vectors and maps of C++ (libstdc++ and c10) in the memory of a process, of which nothing is believed.

Every length and count is bounded, every walk ends: a tree with a circle in it, or with fewer nodes than it claims, is
refused. What is refused may be a torn object of an honest process, which is whole a moment later.
"""

import struct
from collections.abc import Iterator
from functools import partial

from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import Unreadable
from agent.proc.memory.torch_layouts import Layout

MOST_TEXT = 4096
MOST_NODES = 65_536
MOST_VECTOR_BYTES = 1024 * 1024
_WORDS = [struct.Struct(f"<{count}Q") for count in range(4)]
_OLD_LENGTH_BEFORE = 24
"""Length, capacity and count of references stand before the characters of an old string."""


class Objects:
    """Reads what lies in a `PagedMemory` as a layout says. An object is given by its address."""

    def __init__(self, memory: PagedMemory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout

    def string(self, address: int) -> str:
        """Return a std::string. Raises Unreadable where it is longer than any name."""
        return self.text(*self._words(address, 1 if self._layout.old_strings else 2))

    def text(self, begin: int, length: int | None = None) -> str:
        """Return the characters of a std::string, given what it consists of: of an old one, where it begins alone."""
        if length is None:
            length = self._memory.word(begin - _OLD_LENGTH_BEFORE)
        if length > MOST_TEXT:
            raise Unreadable(f"a text of {length} bytes at {begin:#x}")
        return self._memory.read(begin, length).decode(errors="replace")

    def pair_of_strings(self, address: int) -> tuple[str, str]:
        """Return a std::tuple of two strings, which libstdc++ lays out the other way round."""
        pair = self._layout["string_pair"]
        return self.string(address + pair.offset("first")), self.string(address + pair.offset("second"))

    def vector(self, address: int, item: int) -> bytes:
        """Return the bytes of all items of a std::vector."""
        return self.items(item, *self._words(address, 3))

    def items(self, item: int, begin: int, end: int, limit: int) -> bytes:
        """Return the bytes of all items of a std::vector, given what it consists of. Raises Unreadable."""
        size = end - begin
        if not begin <= end <= limit or size > MOST_VECTOR_BYTES or size % item:
            raise Unreadable(
                f"a vector from {begin:#x} to {end:#x} with room up to {limit:#x}, of items of {item} bytes"
            )
        return self._memory.read(begin, size) if size else b""

    def few_items(self, item: int, begin: int, count: int, room: int) -> bytes:
        """Return the bytes of all items of a c10::SmallVector, given what it consists of. Raises Unreadable."""
        if count > room or count * item > MOST_VECTOR_BYTES:
            raise Unreadable(f"a vector of {count} items with room for {room}")
        return self._memory.read(begin, count * item) if count else b""

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return _WORDS[count].unpack(self._memory.read(address, 8 * count))

    def map_values(self, address: int) -> Iterator[int]:
        """Iterate over the addresses of the pairs of key and value in a std::map, in no order."""
        tree, node = self._layout["map"], self._layout["map_node"]
        data = self._memory.read(address, tree.size)
        root, count = _word(data, tree.offset("root")), _word(data, tree.offset("count"))
        if count > MOST_NODES:
            raise Unreadable(f"a map of {count} items")
        left, right = node.offset("left"), node.offset("right")
        waiting, seen = [root] if root else [], 0
        while waiting:
            at = waiting.pop()
            seen += 1
            if seen > count:
                raise Unreadable(f"a map of {count} items has more of them")
            links = self._memory.read(at, node.offset("value"))
            waiting += [child for child in map(partial(_word, links), (left, right)) if child]
            yield at + node.offset("value")
        if seen != count:
            raise Unreadable(f"a map of {count} items has {seen}")

    def unordered_map_values(self, address: int) -> Iterator[int]:
        """Iterate over the addresses of the pairs of key and value in a std::unordered_map, in no order."""
        table, node = self._layout["unordered_map"], self._layout["unordered_map_node"]
        at, count = (self._memory.word(address + table.offset(name)) for name in ("first", "count"))
        if count > MOST_NODES:
            raise Unreadable(f"a map of {count} items")
        for _ in range(count):
            yield at + node.offset("value")
            at = self._memory.word(at + node.offset("next"))
        if at:
            raise Unreadable(f"a map of {count} items has more of them")


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
