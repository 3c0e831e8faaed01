"""Finds symbols that a library keeps to itself, in the symbol table of its file (`.symtab`), if that was not stripped.

The table is not loaded into memory. In libtorch_cpu.so it comes to 12 MB and the names to 76 MB, so both are searched
as bytes, piece by piece, and nothing is built of them: 0.1 s, once for each library, remembered by its build id.

The file may be anybody's: it is opened as every file of a job is (job_files.py) and must carry the build id of what is
loaded. It is read, never mapped: a mapped file that somebody cuts short kills whoever reads on.
"""

import os
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.job_files import open_mapped
from agent.proc.memory.elf_image import Read, build_id_in_file
from agent.proc.memory.mappings import LoadedFile
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from shared.missing import Reason

_MOST_SECTIONS = 4096
_MOST_SYMBOL_BYTES = 256 * 1024 * 1024
_MOST_NAME_BYTES = 1024 * 1024 * 1024
_MOST_CANDIDATES = 64
"""Places at which a name ends one that stands in the table: linkers share the ends of names."""
_MOST_OCCURRENCES = 10_000
"""Of one value in one piece; those that stand for no symbol are counted, too."""
_MOST_REMEMBERED = 64
_RARE = 12
"""Bytes of the end of a name that few others share."""
_PIECE = 1024 * 1024
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _STRTAB = 2, 3


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


class SymbolTables:
    """Looks symbols up, and remembers what was found in which library. Safe from many threads."""

    def __init__(self) -> None:
        self._known = Remembered[Mapping[bytes, int]](_MOST_REMEMBERED)
        self._turns = Remembered[threading.Lock](_MOST_REMEMBERED)

    def find(
        self,
        procfs: ProcFs,
        pid: int,
        library: LoadedFile,
        build_id: bytes | None,
        names: Sequence[bytes],
        deadline: Deadline,
    ) -> Mapping[bytes, int]:
        """Return the values of those of `names` that a library defines: addresses, before they are shifted.

        Remembered for processes of the same user with the same mounts: another user's file may lie about its build id.
        Raises Unavailable, Gone or NotPermitted.
        """
        uids = procfs.fields(pid, "status").get("Uid", "")
        key = (uids, procfs.link(pid, "ns/mnt"), library.path, library.device, library.inode, build_id, tuple(names))
        known = self._known.get(key)
        if known is not None:
            return known
        turn = self._turns.once(key, threading.Lock)
        if not turn.acquire(timeout=deadline.left()):  # the ranks of a node ask for the same library at once
            raise Unavailable(Reason.TIMED_OUT, f"{library.path} was being searched for another rank the whole time")
        try:
            known = self._known.get(key)
            first = library.regions[0]
            if known is not None:
                return known
            with open_mapped(procfs, pid, first.start, first.end, library.path, readers_of(procfs, pid)) as file:
                read = partial(_pread, file)
                if build_id is None or build_id_in_file(read) != build_id:
                    raise Unavailable(Reason.UNREADABLE, f"{library.path} is not the file that the process has loaded")
                return self._known.put(key, find_symbols(read, os.fstat(file).st_size, names, deadline))
        finally:
            turn.release()


def find_symbols(read: Read, file_size: int, names: Sequence[bytes], deadline: Deadline) -> dict[bytes, int]:
    """Return the values of those of `names` that the symbol table of a file defines. `read` takes offsets."""
    sections = _sections(read)
    for section in sections:
        if section.kind != _SYMTAB or section.link >= len(sections):
            continue
        strings = sections[section.link]
        fits = all(s.size <= file_size and s.offset <= file_size - s.size for s in (section, strings))
        if fits and section.size <= _MOST_SYMBOL_BYTES and strings.size <= _MOST_NAME_BYTES:
            return _values(read, section, _places(read, strings, names, deadline), deadline)
    return {}


def _sections(read: Read) -> list[_Section]:
    header = read(0, 64)
    if len(header) < 64:
        return []
    (table_at,) = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<HH", header, 58)
    if size != 64 or count > _MOST_SECTIONS:
        return []
    table = read(table_at, 64 * count)
    # sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, sh_entsize
    fields = struct.iter_unpack("<IIQQQQIIQQ", table[: len(table) // 64 * 64])
    return [_Section(kind=f[1], offset=f[4], size=f[5], link=f[6]) for f in fields]


def _places(read: Read, strings: _Section, names: Sequence[bytes], deadline: Deadline) -> dict[int, bytes]:
    """Return where in the table of names each of `names` begins; a name may stand in several places."""
    found: dict[int, bytes] = {}
    ends = _shared_ends(names)
    for at, data in _pieces(read, strings, max(map(len, names)), deadline):
        for end, ending_so in ends.items():
            for place in _occurrences(data, end):
                behind = place + len(end) - 1
                whole = (name for name in ending_so if data.endswith(name, 0, behind))
                found |= {at + behind - len(name): name for name in whole}
        if len(found) > _MOST_CANDIDATES:
            raise Unavailable(Reason.REFUSED, "the library names one symbol in suspiciously many places")
    return found


def _shared_ends(names: Sequence[bytes]) -> Mapping[bytes, Sequence[bytes]]:
    """Return what to look for, and which names end so."""
    ends = defaultdict(list)
    for name in names:
        ends[name[-_RARE:] + b"\0"].append(name)
    return ends


def _values(read: Read, symbols: _Section, places: Mapping[int, bytes], deadline: Deadline) -> dict[bytes, int]:
    """Return the values of the symbols whose names begin at one of `places`."""
    found: dict[bytes, int] = {}
    for at, data in _pieces(read, symbols, _SYMBOL.size - 1, deadline) if places else ():
        for place, name in places.items():
            for start in _occurrences(data, struct.pack("<Q", place)[:4]):
                if (at + start) % _SYMBOL.size == 0 and start + _SYMBOL.size <= len(data):
                    name_at, _info, _other, section, value, _size = _SYMBOL.unpack_from(data, start)
                    if section and value and name_at == place:
                        found.setdefault(name, value)
    return found


def _occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    """Iterate over the places of `wanted`. For long names `bytes.find` is several times as fast as `re`."""
    place = data.find(wanted)
    for _ in range(_MOST_OCCURRENCES):
        if place < 0:
            return
        yield place
        place = data.find(wanted, place + 1)
    raise Unavailable(Reason.REFUSED, "a symbol table repeats one value suspiciously often")


def _pieces(read: Read, section: _Section, overlap: int, deadline: Deadline) -> Iterator[tuple[int, bytes]]:
    """Iterate over a section as (offset in it, bytes), each piece with the end of the one before."""
    kept = b""
    for at in range(0, section.size, _PIECE):
        if deadline.left() <= 0:
            raise Unavailable(Reason.TIMED_OUT, f"a symbol table was not searched within {deadline.seconds:.1f} s")
        data = read(section.offset + at, min(_PIECE, section.size - at))
        yield at - len(kept), kept + data
        kept = data[-overlap:]


def _pread(file: int, offset: int, size: int) -> bytes:
    try:
        return os.pread(file, size, offset)
    except (OSError, OverflowError):
        return b""
