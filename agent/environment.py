"""The environment of a process as it is now, cut down to an allow-list of names.

/proc/PID/environ is frozen at exec: Ray, mp.spawn and DeepSpeed set RANK after their workers start. The
current variables hang from libc's `environ` pointer in the process's memory. Where that cannot be had
(static programs, no permission to read memory) the frozen ones are used.
"""

import os
import re
import struct
from typing import NamedTuple

from agent.elf_symbols import find_symbol
from agent.errors import Gone
from agent.procfs import ProcFs, Stat, reading
from shared.errors import NotPermitted

Environment = dict[str, str]

_MOST_VARIABLES = 4096
_LONGEST_VALUE = 4096
_FIRST_READ = 256
_MOST_MAPS_BYTES = 4 * 1024 * 1024
_MOST_REMEMBERED = 20_000

# 7f5a1c000000-7f5a1c026000 r--p 00000000 08:01 131 /usr/lib/x86_64-linux-gnu/libc.so.6
_MAPPING = re.compile(rb"([0-9a-f]+)-[0-9a-f]+ [rwxps-]{4} 00000000 ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)")
_LIBC = re.compile(rb".*/(?:libc\.so\.6|libc-2\.\d+\.so|ld-musl-\w+\.so\.1|libc\.musl-\w+\.so\.1)")


class _Mapped(NamedTuple):
    start: int
    device: int
    inode: int
    path: bytes


class Environments:
    """Reads environments and remembers where each process keeps its own."""

    def __init__(self, procfs: ProcFs, names: frozenset[str]) -> None:
        self._procfs = procfs
        self._names = names
        self._symbols: dict[tuple[int, int], int | None] = {}
        self._pointers: dict[tuple[int, int, int], int | None] = {}

    def read(self, process: Stat) -> Environment:
        """Return the allowed variables: those of the start, overridden by the current ones.

        Raises Gone, or NotPermitted when neither can be read.
        """
        frozen = self._frozen(process.pid)
        try:
            return frozen | self._live(process)
        except (NotPermitted, Gone):
            return frozen

    def _frozen(self, pid: int) -> Environment:
        data = self._procfs.read(pid, "environ")
        return self._allowed(data.split(b"\0", _MOST_VARIABLES)[:_MOST_VARIABLES])

    def _live(self, process: Stat) -> Environment:
        with reading(process.pid):
            memory = os.open(self._procfs.path(process.pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)
            try:
                pointer = self._pointer(process)
                return {} if pointer is None else self._allowed(_variables(memory, pointer))
            finally:
                os.close(memory)

    def _allowed(self, variables: list[bytes]) -> Environment:
        pairs = (variable.decode(errors="replace").partition("=") for variable in variables)
        return {name: value[:_LONGEST_VALUE] for name, _, value in pairs if name in self._names}

    def _pointer(self, process: Stat) -> int | None:
        """Return the address of `environ`. The stack's address is in the key: it changes with every exec."""
        key = (process.pid, process.start_ticks, process.stack_address)
        if key not in self._pointers:
            if len(self._pointers) >= _MOST_REMEMBERED:
                self._pointers.clear()
            self._pointers[key] = self._find_pointer(process.pid)
        return self._pointers[key]

    def _find_pointer(self, pid: int) -> int | None:
        """Look in the executable first: one that uses `environ` itself has libc's variable moved into it."""
        for mapped in self._candidates(pid):
            offset = self._symbol(pid, mapped)
            if offset is not None:
                return mapped.start + offset
        return None

    def _candidates(self, pid: int) -> list[_Mapped]:
        executable = self._procfs.link(pid, "exe").encode()
        maps = self._procfs.read(pid, "maps", most=_MOST_MAPS_BYTES)
        found = [_mapped(match) for match in map(_MAPPING.fullmatch, maps.splitlines()) if match]
        first = [m for m in found if m.path == executable]
        return first[:1] + [m for m in found if _LIBC.fullmatch(m.path)][:1]

    def _symbol(self, pid: int, mapped: _Mapped) -> int | None:
        key = (mapped.device, mapped.inode)
        if key not in self._symbols:
            self._symbols[key] = self._read_symbol(pid, mapped)
        return self._symbols[key]

    def _read_symbol(self, pid: int, mapped: _Mapped) -> int | None:
        path = self._procfs.path(pid, "root") + os.fsdecode(mapped.path)
        with reading(pid):
            if os.stat(path).st_ino != mapped.inode:
                return None
        return find_symbol(path, "environ")


def _mapped(match: re.Match[bytes]) -> _Mapped:
    device = os.makedev(int(match[2], 16), int(match[3], 16))
    return _Mapped(int(match[1], 16), device, int(match[4]), match[5])


def _variables(memory: int, pointer: int) -> list[bytes]:
    """Follow `char **environ` in a process's memory; what cannot be read ends the list."""
    array = _address(os.pread(memory, 8, pointer))
    if array == 0:
        return []
    addresses = os.pread(memory, 8 * _MOST_VARIABLES, array)
    strings = []
    for (address,) in struct.iter_unpack("=Q", addresses[: len(addresses) // 8 * 8]):
        if address == 0:
            break
        strings.append(_string(memory, address))
    return strings


def _address(data: bytes) -> int:
    return int.from_bytes(data, "little") if len(data) == 8 else 0


def _string(memory: int, address: int) -> bytes:
    """Read one `NAME=value`, a little first: most are short, and of long ones we want few."""
    for size in (_FIRST_READ, _LONGEST_VALUE):
        try:
            data = os.pread(memory, size, address)
        except (OSError, OverflowError):
            return b""
        if b"\0" in data:
            break
    return data.partition(b"\0")[0]
