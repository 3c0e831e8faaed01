"""The headers of an ELF file, as it lies in the memory of a process or on disk: how it is shifted, and its build id.

Whoever made the file may be hostile: every table is bounded, and what does not fit is no ELF file to us. 64-bit
little-endian machines only. Formats: elf(5); the note NT_GNU_BUILD_ID of the linker's option --build-id.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

Read = Callable[[int, int], bytes]
"""(address, size) -> bytes; fewer where the memory ends."""

_MOST_HEADERS = 64
_MOST_NOTES = 4096
_MOST_NOTE_SEGMENTS = 8
_PAGE = 4096
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4
_GNU_BUILD_ID = 3
_LONGEST_BUILD_ID = 64


class NotElf(Exception):
    """The tables end, contradict themselves, or do not hold what is looked for."""


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


class ElfImage(NamedTuple):
    """What the program headers say of a file that is loaded at some place."""

    bias: int
    """By how much its addresses are shifted."""
    segments: tuple[_Segment, ...]

    @property
    def dynamic(self) -> tuple[int, int]:
        """Where the dynamic section lies in memory, and its size. Raises NotElf where there is none."""
        for segment in self.segments:
            if segment.kind == _DYNAMIC:
                return segment.address + self.bias, segment.size
        raise NotElf


def read_image(read: Read, base: int) -> ElfImage:
    """Read the headers of the file that is loaded at `base`. Raises NotElf."""
    segments = _segments(read, base)
    starts = [segment.address for segment in segments if segment.kind == _LOAD]
    if not starts:
        raise NotElf
    return ElfImage(base - min(starts) // _PAGE * _PAGE, segments)


def build_id_in_memory(read: Read, image: ElfImage) -> bytes | None:
    """Return the build id of a loaded file; None where it has none."""
    return _build_id(read, [(s.address + image.bias, s.size) for s in image.segments if s.kind == _NOTE])


def build_id_in_file(read: Read) -> bytes | None:
    """Return the build id of a file on disk, of which `read` takes offsets; None where it has none, or is no ELF."""
    try:
        return _build_id(read, [(s.offset, s.size) for s in _segments(read, 0) if s.kind == _NOTE])
    except NotElf:
        return None


def _segments(read: Read, base: int) -> tuple[_Segment, ...]:
    header = exactly(read, base, 64)
    (headers_at,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    if header[:6] != b"\x7fELF\x02\x01" or size != 56 or not 0 < count <= _MOST_HEADERS:
        raise NotElf
    table = exactly(read, base + headers_at, 56 * count)
    # p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
    return tuple(_Segment(h[0], h[2], h[3], h[6]) for h in struct.iter_unpack("<IIQQQQQQ", table))


def _build_id(read: Read, places: list[tuple[int, int]]) -> bytes | None:
    for address, size in places[:_MOST_NOTE_SEGMENTS]:
        for name, kind, text in notes_in(read(address, min(size, _MOST_NOTES))):
            if kind == _GNU_BUILD_ID and name == b"GNU\0":
                return text if 0 < len(text) <= _LONGEST_BUILD_ID else None
    return None


def notes_in(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Iterate over the notes that are whole: whose, of which kind, and what it says."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        begin = at + 12 + (name_size + 3) // 4 * 4
        if begin + size > len(data):
            return
        yield data[at + 12 : begin], kind, data[begin : begin + size]
        at = begin + (size + 3) // 4 * 4


def exactly(read: Read, address: int, size: int) -> bytes:
    """Read so many bytes. Raises NotElf where there are fewer."""
    data = read(address, size)
    if len(data) != size:
        raise NotElf
    return data
