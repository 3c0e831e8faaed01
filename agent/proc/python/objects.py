"""Objects of Python in the memory of a process: the names of types, texts, bytes, numbers and sequences.

Whatever is read may be garbage, or freed meanwhile: an object must have the type that is expected, every length is
bounded, and nothing is followed that was not asked for. Layouts: Include/cpython/unicodeobject.h and longintrepr.h.
"""

import struct
from collections.abc import Mapping

from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import Unreadable

TYPE_AT, SIZE_AT, ITEMS_AT = 8, 16, 24
_TYPE_NAME_AT = 24
_BYTES_AT = 32
_MOST_CHARACTERS = 4096
_MOST_BYTES = 512 * 1024
_MOST_ITEMS = 1024
_LONGEST_NAME = 64
_PAGE = 4096
_POINTER = (1 << 64) - 4
"""3.14 marks what stands in frames and their like by the two lowest bits."""
_DIGIT_BITS, _MOST_DIGITS = 30, 4


ASCII_AT: Mapping[str, int] = {
    **dict.fromkeys(("3.8", "3.9", "3.10", "3.11"), 48),
    **dict.fromkeys(("3.12", "3.13", "3.14"), 40),
}
"""Where the characters of an ASCII string begin."""
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class PythonObjects:
    """Reads the objects of one process, each given by its address. Raises Unreadable of what is something else."""

    def __init__(self, paged: PagedMemory, version: str | None) -> None:
        """`version`, e.g. `3.11`. Raises Unreadable of one that is not known."""
        if version is None or version not in ASCII_AT:
            raise Unreadable(f"objects of Python {version or 'of an unknown version'} cannot be read")
        self.paged = paged
        self.version = version
        self._ascii_at = ASCII_AT[version]
        self._counted = version in ("3.8", "3.9", "3.10", "3.11")
        self._tuple_items_at = 32 if version == "3.14" else ITEMS_AT
        self._types: dict[int, str] = {}

    def type_name(self, address: int) -> str:
        """Return the name of an object's type: with its module where that is written in C."""
        kind = self.paged.word(address + TYPE_AT)
        if kind not in self._types:
            self._types[kind] = self.name(self.paged.word(kind + _TYPE_NAME_AT))
        return self._types[kind]

    def name(self, address: int) -> str:
        """Return a text of C as far as names are long."""
        begun = self.paged.read(address, min(_LONGEST_NAME, _PAGE - address % _PAGE))
        rest = b"" if b"\0" in begun else self.paged.read(address + len(begun), _LONGEST_NAME - len(begun))
        return (begun + rest).partition(b"\0")[0].decode(errors="replace")

    def require(self, address: int, *types: str) -> str:
        """Return the name of an object's type, which must be one of these."""
        found = self.type_name(address)
        if found not in types:
            raise Unreadable(f"an object of type {found!r} where a {types[0]!r} should be")
        return found

    def text(self, address: int) -> str:
        """Return a str."""
        self.require(address, "str")
        length = self.paged.word(address + SIZE_AT)
        (flags,) = struct.unpack("<I", self.paged.read(address + 32, 4))
        width, compact, ascii_only = _of_string(flags)
        if length > _MOST_CHARACTERS or not compact or width not in _ENCODINGS:
            raise Unreadable(f"a string of {length} characters at {address:#x}")
        at = self._ascii_at if ascii_only else 2 * self._ascii_at - 24
        data = self.paged.read(address + at, length * width)
        return data.decode(_ENCODINGS[width], errors="replace")

    def bytes(self, address: int) -> bytes:
        """Return what a bytes object holds."""
        self.require(address, "bytes")
        size = self.paged.word(address + SIZE_AT)
        if size > _MOST_BYTES:
            raise Unreadable(f"a bytes object of {size} bytes")
        return self.paged.read(address + _BYTES_AT, size)

    def number(self, address: int) -> int:
        """Return an int or bool of up to 120 bits."""
        self.require(address, "int", "bool")
        size = int.from_bytes(self.paged.read(address + SIZE_AT, 8), "little", signed=True)
        count, negative = (abs(size), size < 0) if self._counted else (size >> 3, size & 3 == 2)
        if not 0 <= count <= _MOST_DIGITS:
            raise Unreadable(f"a number of {count} digits")
        digits = struct.unpack(f"<{count}I", self.paged.read(address + ITEMS_AT, 4 * count))
        value: int = sum(digit << _DIGIT_BITS * place for place, digit in enumerate(digits))
        return -value if negative else value

    def length(self, address: int) -> int:
        """Return how many items a list, tuple or deque has."""
        self.require(address, "list", "tuple", "collections.deque")
        return self.paged.word(address + SIZE_AT)

    def items(self, address: int) -> tuple[int, ...]:
        """Return the items of a list or tuple."""
        kind, count = self.require(address, "list", "tuple"), self.length(address)
        at = self.paged.word(address + ITEMS_AT) if kind == "list" else address + self._tuple_items_at
        return self.pointers(at, count)

    def pointers(self, address: int, count: int) -> tuple[int, ...]:
        """Return objects that stand side by side, 0 where there is none."""
        if not 0 <= count <= _MOST_ITEMS:
            raise Unreadable(f"{count} objects in a row")
        return tuple(word & _POINTER for word in struct.unpack(f"<{count}Q", self.paged.read(address, 8 * count)))

    def pointer(self, address: int) -> int:
        """Return the object that stands at an address, 0 where there is none."""
        return self.paged.word(address) & _POINTER


def _of_string(flags: int) -> tuple[int, bool, bool]:
    """Return the width of a character, and whether a string is compact and ASCII: some 3.14 have them further left."""
    flags >>= 2 if flags >> 2 & 7 else 16
    return flags & 7, bool(flags >> 3 & 1), bool(flags >> 4 & 1)
