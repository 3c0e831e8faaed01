"""Code objects of Python in the memory of a process: file, function, and the line of an instruction.

Where their fields lie differs by version (Include/cpython/code.h) in builds with a GIL on 64-bit
machines. What is read must prove to be a code object: its type's name is `code`, its file and name are strings, its
table of lines is bytes. Those tables: Objects/lnotab_notes.txt (3.10 has another one), and since 3.11
InternalDocs/code_objects.md.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from agent.proc.python.objects import PythonObjects


class _Version(NamedTuple):
    """Where fields lie, and how lines are noted."""

    first_line: int
    filename: int
    name: int
    table: int
    lines: "Callable[[bytes, int], Iterator[tuple[int, int | None]]]"
    """(table, first line) -> (offset behind the last instruction, line) of each stretch, ascending."""


class CodeObject(NamedTuple):
    """A function, or whatever else was compiled into one piece."""

    file: str
    name: str
    first_line: int
    table: int
    """Where its table of lines is: read anew each time, so that what it costs to go through it is counted."""


class CodeObjects:
    """Reads the code objects of one process, each once."""

    def __init__(self, objects: PythonObjects) -> None:
        self._objects = objects
        self._version = _VERSIONS[objects.version]
        self._code: dict[int, CodeObject] = {}

    def frame(self, address: int, instruction: int) -> tuple[str, str, int]:
        """Return function, file and line of an instruction of the code object at `address`. Raises Unreadable."""
        code = self._code.get(address)
        if code is None:
            code = self._code[address] = self._read(address)
        table = self._objects.bytes(code.table)
        line = line_of(self._version.lines(table, code.first_line), instruction)
        return code.name, code.file, code.first_line if line is None else line

    def _read(self, address: int) -> CodeObject:
        version, objects = self._version, self._objects
        objects.require(address, "code")
        (first_line,) = struct.unpack("<i", objects.paged.read(address + version.first_line, 4))
        return CodeObject(
            objects.text(objects.paged.word(address + version.filename)),
            objects.text(objects.paged.word(address + version.name)),
            first_line,
            objects.paged.word(address + version.table),
        )


def line_of(stretches: Iterator[tuple[int, int | None]], instruction: int) -> int | None:
    """Return the line of the instruction at an offset in bytes; None where it belongs to none."""
    for end, line in stretches:
        if instruction < end:
            return line
    return None


def lines_until_39(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    """Pairs of a step in bytes and a step in lines that follows it."""
    at, line = 0, first_line
    for step, lines in zip(table[::2], table[1::2], strict=False):
        if step:
            at += step
            yield at, line
        line += lines - 256 if lines >= 128 else lines
    yield 1 << 62, line


def lines_of_310(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    """Pairs of a step in lines and the size of the stretch that it leads to; -128 stands for no line."""
    at, line = 0, first_line
    for size, lines in zip(table[::2], table[1::2], strict=False):
        at += size
        if lines == 128:
            yield at, None
            continue
        line += lines - 256 if lines >= 128 else lines
        yield at, line


def lines_since_311(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    """Entries whose first byte has the highest bit: what follows, and how many 2-byte units the stretch has."""
    at, line, place = 0, first_line, 0
    while place < len(table):
        head = table[place]
        kind = head >> 3 & 15
        place += 1
        if kind in (13, 14):
            step, place = _signed_varint(table, place)
            line += step
        elif 10 <= kind <= 12:
            line += kind - 10
        while place < len(table) and not table[place] & 0x80:
            place += 1
        at += 2 * ((head & 7) + 1)
        yield at, None if kind == 15 else line


def _signed_varint(table: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(table) and shift < 36:
        byte = table[place]
        value |= (byte & 63) << shift
        place, shift = place + 1, shift + 6
        if not byte & 64:
            break
    return (-(value >> 1) if value & 1 else value >> 1), place


_38 = _Version(40, 104, 112, 120, lines_until_39)
_312 = _Version(68, 112, 120, 136, lines_since_311)
_VERSIONS: Mapping[str, _Version] = {
    "3.8": _38,
    "3.9": _38,
    "3.10": _38._replace(lines=lines_of_310),
    "3.11": _Version(72, 112, 120, 136, lines_since_311),
    "3.12": _312,
    "3.13": _312,
    "3.14": _312,
}
