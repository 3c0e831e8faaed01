"""Reads the notes of an ELF core file: who it was, which signal ended it, which files it had mapped.

Formats: elf(5), core(5), and struct elf_prstatus, elf_prpsinfo and fill_files_note in the kernel's fs/binfmt_elf.c; of
64-bit little-endian machines. A core is as hostile as the process that it was: sizes are bounded, and what makes no
sense raises UnreadableDump.
"""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agent.proc.memory.elf_image import notes_in
from shared.errors import UnreadableDump

_MOST_NOTES = 64 * 1024 * 1024
_MOST_PLACES = 8
"""Where notes lie: the kernel and gcore write one place. A forged file may name the same one a million times."""

_MOST_FILES = 65_536
_LONGEST_PATH = 4096
_ET_CORE, _PT_NOTE, _MANY_HEADERS = 4, 4, 0xFFFF
_MACHINES = frozenset({62, 183})
"""x86_64 and aarch64, whose notes are laid out alike as far as we read them."""

_PRSTATUS, _PRPSINFO, _AUXV, _FILE = 1, 3, 6, 0x46494C45
_AT_PHDR = 3
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"\x1f\x8b": "gunzip",
    b"\xfd7zXZ": "unxz",
    b"\x04\x22\x4d\x18": "lz4 -d",
}


class MappedFile(NamedTuple):
    """A file that was mapped, and where."""

    start: int
    end: int
    path: str


class CoreNotes(NamedTuple):
    """What the notes say. `threads` begins with the one that got the signal."""

    size_bytes: int
    missing_bytes: int
    threads: tuple[int, ...]
    signal: int
    pid: int | None
    command: str
    files: tuple[MappedFile, ...]
    executable: str | None


def read_notes(core: int) -> CoreNotes:
    """Read the notes of the core file open as descriptor `core`. Raises UnreadableDump."""
    size = os.fstat(core).st_size
    headers = list(_headers(core))
    end = max((offset + length for _, offset, length in headers), default=0)
    places = [(offset, length) for kind, offset, length in headers if kind == _PT_NOTE][:_MOST_PLACES]
    notes = [note for place in places for note in _notes(core, *place)]
    status = [desc for kind, desc in notes if kind == _PRSTATUS and len(desc) >= 36]
    about = next((desc for kind, desc in notes if kind == _PRPSINFO and len(desc) >= 136), None)
    files = tuple(file for kind, desc in notes if kind == _FILE for file in _files(desc))
    if not status:
        cut = f": it is cut off, {size} of {end} bytes are there" if end > size else ""
        raise UnreadableDump(
            f"the core file contains no thread{cut}", advice="see `ulimit -c`, and the space on the disk"
        )
    return CoreNotes(
        size_bytes=size,
        missing_bytes=max(0, end - size),
        threads=tuple(int(struct.unpack_from("<i", desc, 32)[0]) for desc in status),
        signal=int(struct.unpack_from("<h", status[0], 12)[0]),
        pid=int(struct.unpack_from("<i", about, 24)[0]) if about is not None else None,
        command=_text(about[56:136]) if about is not None else "",
        files=files,
        executable=_executable(notes, files),
    )


def _headers(core: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over the program headers: type, offset in the file, size in the file."""
    head = os.pread(core, 64, 0)
    for magic, remedy in _PACKED.items():
        if head.startswith(magic):
            raise UnreadableDump("the file is compressed", advice=f"unpack it first ({remedy}), or `coredumpctl dump`")
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise UnreadableDump(
            "not an ELF core file of a 64-bit machine", advice="core files come from the kernel or gcore"
        )
    kind, machine = struct.unpack_from("<HH", head, 16)
    headers_at, sections_at = struct.unpack_from("<QQ", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if kind != _ET_CORE or machine not in _MACHINES or size != 56:
        raise UnreadableDump("an ELF file, but not a readable core file")
    if count == _MANY_HEADERS:
        section = os.pread(core, 64, sections_at) if sections_at < 1 << 62 else b""
        count = struct.unpack_from("<I", section, 44)[0] if len(section) == 64 else 0
    table = os.pread(core, min(count, 1 << 20) * size, headers_at) if headers_at < 1 << 62 else b""
    for at in range(0, len(table) // size * size, size):
        what, offset, length = struct.unpack_from("<I4xQ16xQ", table, at)
        if offset < 1 << 62 and length < 1 << 62:
            yield what, offset, length


def _notes(core: int, offset: int, length: int) -> Iterator[tuple[int, bytes]]:
    for name, kind, desc in notes_in(os.pread(core, min(length, _MOST_NOTES), offset)):
        if name.startswith(b"CORE"):
            yield kind, desc


def _files(desc: bytes) -> Iterator[MappedFile]:
    if len(desc) < 16:
        return
    count = min(struct.unpack_from("<Q", desc)[0], _MOST_FILES, (len(desc) - 16) // 24)
    names = desc[16 + 24 * count :].split(b"\0", count)
    for number, name in zip(range(count), names, strict=False):
        start, end, _ = struct.unpack_from("<QQQ", desc, 16 + 24 * number)
        yield MappedFile(start, end, os.fsdecode(name[:_LONGEST_PATH]))


def _executable(notes: list[tuple[int, bytes]], files: tuple[MappedFile, ...]) -> str | None:
    """Return the file that the program's own headers were mapped from.

    The kernel writes whole paths. Another one was made up: a debugger might take it for an option of its own.
    """
    auxv = next((desc for kind, desc in notes if kind == _AUXV), b"")
    pairs = dict(struct.iter_unpack("<QQ", auxv[: len(auxv) // 16 * 16]))
    address = pairs.get(_AT_PHDR, 0)
    found = next((file.path for file in files if file.start <= address < file.end), None)
    return found if found is not None and found.startswith("/") else None


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="replace").strip()
