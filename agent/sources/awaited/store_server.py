"""The keys that clients await in the stores that a process serves: nobody has set them. In PyTorch's own memory.

1. A thread named `pt_tcpstore…` serves a `TCPStore`. What it was started with lies on its stack: an object of
   std::thread's, whose vtable libtorch_cpu.so exports, that leads to the daemon.
2. The daemon's class is in no header. Two std::unordered_maps of strings stand side by side in it: what was set, and
   who waits for what. A map is one if it has as many nodes as it says, each with a text, a vector and a hash. Source:
   TCPStoreLibUvBackend.cpp and TCPStore.cpp, 2.5 to 2.14.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agent.errors import Gone
from agent.find.torch_stores import NoSuchObject, string
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import MemoryRegion, loaded_files
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.procfs import FEW_THREADS, ProcFs
from agent.sources.awaited.store_keys import told
from shared.wire.stacks import ServedKey

_THREAD = "pt_tcpstore"
_LIBRARY = re.compile(r"libtorch_cpu\.so")
_STARTED = b"_ZTVNSt6thread11_State_implINS_8_InvokerISt5tupleIJMN4c10d6detail16BackgroundThreadEFvvEPS5_EEEEEE"
_ARGUMENT_AT = 8
_STACK_BYTES, _DAEMON_BYTES = 16_384, 4096
_MAP = struct.Struct("<QQQQfIQQ")
"""The buckets and how many, the first node, how many nodes, how full it may be, and what it has for when it grows."""
_FULL = 1.0
_KEY_AT = 8
_MOST_NODES = 20_000
_MOST_AWAITED = 64
_MOST_ALIKE = 3
_NUMBER = re.compile(r"\d+")


def keys_awaited(
    procfs: ProcFs, pid: int, memory: ProcessMemory, regions: Sequence[MemoryRegion]
) -> Iterator[ServedKey]:
    """Iterate over the keys that are awaited in the stores of a process; none where it serves none. Raises Gone."""
    for tid in _serving(procfs, pid):
        with suppress(Unreadable, NoSuchObject):
            yield from _awaited(memory, _daemon(procfs, pid, tid, memory, regions))


def _serving(procfs: ProcFs, pid: int) -> Iterator[int]:
    for tid in procfs.tids(pid, FEW_THREADS):
        with suppress(Gone):
            if procfs.text(pid, f"task/{tid}/comm", most=64).startswith(_THREAD):
                yield tid


def _daemon(procfs: ProcFs, pid: int, tid: int, memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> int:
    """Step 1. A thread that runs shows no stack."""
    called = procfs.text(pid, f"task/{tid}/syscall", most=256).split()
    tables = (find_vtable(memory.read_some, library.base, _STARTED) for library in loaded_files(regions, _LIBRARY))
    table = next(filter(None, tables), None)
    stack = memory.read_some(int(called[-2], 16), _STACK_BYTES) if table is not None and len(called) > 2 else b""
    for (word,) in struct.iter_unpack("<Q", stack[: len(stack) // 8 * 8]):
        if word % 8 == 0 and memory.read_some(word, 8) == struct.pack("<Q", table or 0):
            return memory.word(word + _ARGUMENT_AT)
    raise NoSuchObject


def _awaited(memory: ProcessMemory, daemon: int) -> Iterator[ServedKey]:
    """Step 2."""
    data = memory.read_some(daemon, _DAEMON_BYTES)
    maps = [(at, _MAP.unpack_from(data, at)) for at in range(0, len(data) - 2 * _MAP.size, 8)]
    for at, (_, _, first, size, full, *_) in maps:
        _, _, first_awaited, awaited, awaited_full, *_ = _MAP.unpack_from(data, at + _MAP.size)
        if full == awaited_full == _FULL and size and 0 < awaited <= _MOST_AWAITED:
            with suppress(Unreadable, NoSuchObject):
                waiting = dict(_nodes(memory, first_awaited, awaited))
                known = list(dict(_nodes(memory, first, size))) if size <= _MOST_NODES else []
                yield from (_told(key, clients, known) for key, clients in waiting.items())
                return


def _nodes(memory: ProcessMemory, node: int, size: int) -> Iterator[tuple[str, int]]:
    """Iterate over a map's keys, with how many bytes their values have."""
    for _ in range(size):
        key, after = string(memory, node + _KEY_AT)
        begin, end, limit = memory.words(after, 3)
        if not begin <= end <= limit:
            raise NoSuchObject
        yield key.decode(errors="replace"), end - begin
        node = memory.word(node)
    if node:
        raise NoSuchObject


def _told(key: str, size: int, known: Sequence[str]) -> ServedKey:
    """Tell of keys that differ from it by numbers alone: in a loop they were set before."""
    alike = re.compile(_NUMBER.sub(r"\\d+", re.escape(key)))
    found = sorted(filter(alike.fullmatch, known), key=lambda name: [int(n) for n in _NUMBER.findall(name)])
    return ServedKey(key=told(key), clients=max(1, size // 8), alike=tuple(map(told, found[-_MOST_ALIKE:])))
