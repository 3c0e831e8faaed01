"""The environment of a process as it is now, cut down to an allow-list of names.

/proc/PID/environ is frozen at exec: Ray, mp.spawn and DeepSpeed set RANK after their workers start. The
current variables hang from libc's `environ` pointer in the process's memory. Where that cannot be had
(static programs, no permission to read memory) the frozen ones are used.
"""

import os
import re
import struct
import time
from dataclasses import dataclass, field
from functools import partial

from agent.errors import Gone
from agent.proc.memory.elf_image import Read
from agent.proc.memory.elf_symbols import find_variable
from agent.proc.procfs import MOST_BYTES, TICKS_PER_SECOND, ProcFs, Stat
from shared.errors import NotPermitted

Environment = dict[str, str]

_MOST_VARIABLES = 4096
_LONGEST_VALUE = 4096
_MOST_KEPT = 32_768
"""Characters of one process's variables: they are remembered of every process that runs Python."""
_SETTLED_SECONDS = 10.0
_FIRST_READ = 256

# 7f5a1c000000-7f5a1c026000 r--p 00000000 08:01 131 /usr/lib/x86_64-linux-gnu/libc.so.6
_MAPPING = re.compile(rb"([0-9a-f]+)-[0-9a-f]+ [rwxps-]{4} 00000000 [0-9a-f]+:[0-9a-f]+ \d+ +(/.*)")
PYTHON = re.compile(r"(?:python|pypy)[\w.+-]*", re.ASCII)
"""Names of programs that are Python interpreters."""

_LIBC = re.compile(rb".*/(?:libc\.so\.6|libc-2\.\d+\.so|ld-musl-\w+\.so\.1|libc\.musl-\w+\.so\.1)(?: \(deleted\))?")


Key = tuple[int, int, int]
"""A process and the program it runs: pid, start, and the address of its stack, which changes with every exec."""


@dataclass
class _Known:
    """What is remembered of one program, so that looking again costs three small reads."""

    frozen: Environment
    pointer: int | None
    """Where the pointer `environ` lies; None where the variables of the start are all there is to know."""
    addresses: bytes = b""
    live: Environment = field(default_factory=dict)


class Environments:
    """Reads environments and remembers where each process keeps its own."""

    def __init__(self, procfs: ProcFs, names: frozenset[str]) -> None:
        self._procfs = procfs
        self._names = {name.encode(): name for name in names}
        self._known: dict[Key, _Known] = {}

    def read(self, process: Stat) -> Environment:
        """Return the allowed variables: those of the start, overridden by the current ones.

        Only what runs Python is taken to change its own. Raises Gone, or NotPermitted when neither can be read.
        """
        known = self._known.get(key_of(process))
        if known is None:
            known = self._begin(process)
            if known.pointer is not None or _age_seconds(process) > _SETTLED_SECONDS:
                self._known[key_of(process)] = known
        if known.pointer is None:
            return known.frozen
        try:
            self._refresh(process.pid, known.pointer, known)
        except (NotPermitted, Gone):
            return known.frozen
        return known.frozen | known.live

    def is_fixed(self, process: Stat) -> bool:
        """Is it known that this program's variables are what they were at its start, and may be read?"""
        known = self._known.get(key_of(process))
        return known is not None and known.pointer is None

    def forget_all_but(self, keys: set[Key]) -> None:
        """Keep what is known of these programs alone."""
        self._known = {key: known for key, known in self._known.items() if key in keys}

    def _begin(self, process: Stat) -> _Known:
        data = self._procfs.read(process.pid, "environ")
        frozen = self._allowed(data.split(b"\0", _MOST_VARIABLES)[:_MOST_VARIABLES])
        if not frozen and len(data) < min(process.environment_bytes, MOST_BYTES):
            raise Gone(f"the variables of process {process.pid} lie in memory that cannot be read")
        try:
            return _Known(frozen, self._find_pointer(process.pid))
        except (NotPermitted, Gone):
            return _Known(frozen, None)

    def _refresh(self, pid: int, pointer: int, known: _Known) -> None:
        """Follow `char **environ`. Setting a variable changes the list, so an equal list is not followed again."""
        with self._procfs.opened(pid, "mem") as opened:
            memory = partial(_read_memory, opened)
            array = _address(memory(pointer, 8))
            addresses = _until_null(memory(array, 8 * _MOST_VARIABLES) if array else b"")
            if addresses != known.addresses:
                known.live = self._allowed(_strings(memory, addresses))
                known.addresses = addresses

    def _allowed(self, variables: list[bytes]) -> Environment:
        kept: Environment = {}
        left = _MOST_KEPT
        for variable in variables:
            name = self._names.get(variable.partition(b"=")[0])
            if name is None:
                continue
            value = variable[len(name) + 1 :].decode(errors="replace")[:_LONGEST_VALUE]
            if len(value) <= left:
                left -= len(value)
                kept[name] = value
        return kept

    def _find_pointer(self, pid: int) -> int | None:
        """Look in the executable first: one that uses `environ` itself has libc's variable moved into it."""
        executable = self._procfs.link(pid, "exe")
        maps = self._procfs.maps(pid)
        if b"/libpython" not in maps and not PYTHON.match(executable.rpartition("/")[2]):
            return None
        with self._procfs.opened(pid, "mem") as opened:
            for base in _bases(executable.encode(), maps):
                address = find_variable(partial(_read_memory, opened), base, b"environ")
                if address is not None:
                    return address
        return None


def _age_seconds(process: Stat) -> float:
    """A program that has just begun may not have loaded its libraries yet."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / TICKS_PER_SECOND


def key_of(process: Stat) -> Key:
    """Return what tells this program of this process from all others."""
    return process.pid, process.start_ticks, process.stack_address


def _bases(executable: bytes, maps: bytes) -> list[int]:
    """Return where the files that may hold `environ` are loaded: the executable, then libc."""
    found = [(int(match[1], 16), match[2]) for match in map(_MAPPING.fullmatch, maps.splitlines()) if match]
    first = [base for base, path in found if path == executable]
    return first[:1] + [base for base, path in found if _LIBC.fullmatch(path)][:1]


def _read_memory(memory: int, address: int, size: int) -> bytes:
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError):
        return b""


def _until_null(addresses: bytes) -> bytes:
    """Cut a list of 8-byte addresses before the first that is null."""
    whole = addresses[: len(addresses) // 8 * 8]
    for position, (address,) in enumerate(struct.iter_unpack("=Q", whole)):
        if address == 0:
            return whole[: position * 8]
    return whole


def _strings(memory: Read, addresses: bytes) -> list[bytes]:
    return [_string(memory, address) for (address,) in struct.iter_unpack("=Q", addresses)]


def _address(data: bytes) -> int:
    return int.from_bytes(data, "little") if len(data) == 8 else 0


def _string(memory: Read, address: int) -> bytes:
    """Read one `NAME=value`, a little first: most are short, and of long ones we want few."""
    data = memory(address, _FIRST_READ)
    if b"\0" not in data:
        data = memory(address, _LONGEST_VALUE)
    return data.partition(b"\0")[0]
