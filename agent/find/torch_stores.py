"""Where a job met: the stores of PyTorch that its process groups, and its agents for remote calls, are made with.

Objects begin with the vtables of their classes, which libtorch_cpu.so exports. Stores lie within stores, and end at the
one where the job met: a `TCPStore` has the address, which is the same on all nodes and no other job's meanwhile.

Layout: PrefixStore.hpp, TCPStore.hpp and FileStore.hpp in torch/csrc/distributed/c10d, unchanged from 2.1 to 2.15;
wheels up to 2.5 have the older strings of libstdc++.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.proc.memory.elf_symbols import find_variable, find_vtable
from agent.proc.memory.mappings import MemoryRegion, loaded_files
from agent.proc.memory.process_memory import ProcessMemory

_LIBRARY = re.compile(r"libtorch_cpu\.so")
_GROUP, PREFIX, TCP, _FILE = "12ProcessGroup", "11PrefixStore", "8TCPStore", "9FileStore"
"""Names of classes as the C++ ABI writes them."""
_AGENT = b"_ZTVN5torch11distributed3rpc15TensorPipeAgentE"
_CURRENT_AGENT = b"_ZN5torch11distributed3rpc8RpcAgent16currentRpcAgent_E"

FIELDS_AT = 24
"""In a store, behind the vtable, the reference counts and its timeout: the prefix, the address or the path."""
LARGEST_SIZE = 1 << 20
_DEEPEST = 8
"""Stores within stores: `0/`, `default_pg/`, and torchelastic's."""
_LONGEST_NAME = 255


class NoSuchObject(Exception):
    """There is no such object."""


class Vtables(NamedTuple):
    """What objects of PyTorch's classes begin with in one process."""

    group: int
    stores: Mapping[int, str]
    agent: int | None = None
    """Of an agent for remote calls; a PyTorch may have been built without."""
    current_agent: int | None = None
    """Where the pointer to the process's agent lies."""


class TorchGroup(NamedTuple):
    """A process group as its own process has it."""

    vtables: Vtables
    address: int
    rank: int
    size: int
    store: str | None
    """Where the job met, as `host:port`, or the name of a file; None for stores of other kinds."""
    is_first: bool
    """Was it the first that the process made? That is the world."""
    is_awaited: bool = False
    """Is there no more of it than the store, where the process waits as rank 0 until all have come?"""


def find_vtables(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> Vtables | None:
    """Return them; None where PyTorch is not loaded, or not built for distributed training."""
    for library in loaded_files(regions, _LIBRARY):
        found = {
            name: find_vtable(memory.read_some, library.base, f"_ZTVN4c10d{name}E".encode())
            for name in (_GROUP, PREFIX, TCP, _FILE)
        }
        group, prefix = found[_GROUP], found[PREFIX]
        if group is not None and prefix is not None:
            return Vtables(
                group,
                {at: name for name, at in found.items() if at is not None},
                find_vtable(memory.read_some, library.base, _AGENT),
                find_variable(memory.read_some, library.base, _CURRENT_AGENT),
            )
    return None


def walk(memory: ProcessMemory, store: int, vtables: Vtables) -> tuple[list[bytes], int]:
    """Follow stores within stores; return their prefixes, the outermost first, and the store at the end.

    Raises NoSuchObject where that has no end, or Unreadable.
    """
    prefixes: list[bytes] = []
    for _ in range(_DEEPEST):
        if vtables.stores.get(memory.word(store)) != PREFIX:
            return prefixes, store
        prefix, after = string(memory, store + FIELDS_AT)
        prefixes.append(prefix.rstrip(b"/"))
        store = memory.word(after)
    raise NoSuchObject


def name_of(memory: ProcessMemory, store: int, vtables: Vtables) -> str | None:
    """Return where a job met, as it is told to people: without what cannot be printed."""
    kind = vtables.stores.get(memory.word(store))
    if kind == TCP:
        host, after = string(memory, store + FIELDS_AT)
        return f"{_printable(host)}:{memory.word(after) & 0xFFFF}"
    if kind == _FILE:
        path, _ = string(memory, store + FIELDS_AT)
        return _printable(path.rpartition(b"/")[2]) or None
    return None


def string(memory: ProcessMemory, at: int) -> tuple[bytes, int]:
    """Return a std::string and where the next field begins. Raises NoSuchObject of one too long for PyTorch's names."""
    text, length = memory.words(at, 2)
    after = at + 32
    if length > _LONGEST_NAME:  # the older kind: a pointer to the text, which its length precedes
        length, after = memory.word(text - 24), at + 8
    if length > _LONGEST_NAME:
        raise NoSuchObject
    return memory.read(text, length), after


def _printable(text: bytes) -> str:
    return "".join(character for character in text.decode(errors="replace") if character.isprintable())
