"""Finds the flight recorders in a rank's memory, and remembers for as long as the rank runs where they are.

1. Which of PyTorch's libraries are loaded, their build ids, and the version of PyTorch: the layouts that may be theirs.
2. In each library the symbol of the pointer to its recorder: libtorch_cpu has that of Gloo and others, libtorch_cuda
   that of NCCL. A rank that uses both keeps both.
3. Where no file of a library can be read, or all are stripped of their symbols, what looks like a recorder is one
   (stripped.py).
4. A pointer that is null has no recorder yet: it is made with the first process group.
5. Since 2.15 backends that do not record themselves, `nccl` among them, have recorders in a list by their names, which
   grows with each backend that is used.
"""

import re
from contextlib import suppress
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.library_versions import read_versions
from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.elf_image import NotElf, build_id_in_memory, read_image
from agent.proc.memory.mappings import LoadedFile, loaded_files, read_mappings
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.symbol_tables import SymbolTables
from agent.proc.memory.torch_layouts import Layout, LayoutTable, read_layouts
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from agent.sources.recorder.memory.stripped import find_stripped
from shared.errors import NotPermitted
from shared.missing import Reason

_LIBRARY = re.compile(r"libtorch_(?:cpu|cuda|hip|xpu)\.so")
_MOST_LIBRARIES = 8
_MOST_GIVEN = 1024 * 1024
_KINDS = "recorder", "registry"

Key = tuple[int, int, int]
"""A process and the program that it runs, as in agent.find.environment."""


class RecorderPlaces(NamedTuple):
    """Where one rank keeps its flight recorders."""

    pointers: tuple[int, ...]
    """Addresses of the pointers to them."""
    layouts: tuple[Layout, ...]
    """Those that they may have, the likeliest first."""
    python: str | None
    """The version of Python, e.g. `3.11`."""
    registries: tuple[int, ...] = ()
    """Addresses of lists of more of them."""

    def recorders(self, memory: ProcessMemory) -> list[int]:
        """Return the addresses of those that there are by now. Raises Unavailable where there are none, or Gone."""
        found = [*map(memory.word, self.pointers)]
        for registry in self.registries:
            with suppress(Unreadable):  # a backend may be added just now
                found += _listed(memory, registry, self.layouts[0])
        if not any(found):
            told = "PyTorch has not created a flight recorder in this rank: no process group has been used yet"
            raise Unavailable(Reason.NOT_FOUND, told)
        return [address for address in dict.fromkeys(found) if address]


class RecorderLocator:
    """Looks for recorders. Safe from many threads."""

    def __init__(self, table: LayoutTable | None = None, symbols: SymbolTables | None = None) -> None:
        self._table = table or read_layouts()
        self._symbols = symbols or SymbolTables()
        self._known = Remembered[RecorderPlaces]()

    def locate(self, procfs: ProcFs, rank: Rank, memory: ProcessMemory, deadline: Deadline) -> RecorderPlaces:
        """Return where a rank keeps its recorders. Raises Unavailable, Gone or NotPermitted."""
        return self._known.once(key_of(rank), lambda: self._find(procfs, rank.stat.pid, memory, deadline))

    def _find(self, procfs: ProcFs, pid: int, memory: ProcessMemory, deadline: Deadline) -> RecorderPlaces:
        regions = read_mappings(procfs, pid)
        libraries = loaded_files(regions, _LIBRARY)[:_MOST_LIBRARIES]
        if not libraries:
            raise Unavailable(Reason.NOT_FOUND, "the process has not loaded PyTorch, or has it linked statically")
        build_ids = {library: _build_id(memory, library) for library in libraries}
        versions = read_versions(procfs, pid).versions
        layouts = self._table.candidates([b.hex() for b in build_ids.values() if b is not None], versions.torch)
        if not layouts:
            loaded = f"PyTorch {versions.torch or 'of an unknown version'}"
            known = f"releases up to {self._table.newest} are known"
            raise Unavailable(Reason.NOT_FOUND, f"the memory layout of {loaded} is not known; {known}")
        by_symbol = [self._by_symbol(procfs, pid, memory, *each, deadline) for each in build_ids.items()]
        pointers, registries = (
            tuple(address for of in by_symbol for name, address in of.items() if name in self._table.symbols[kind])
            for kind in _KINDS
        )
        if not pointers:
            looked = (find_stripped(memory, library, regions, layouts) for library in libraries)
            pointers = tuple(pointer for pointer in looked if pointer is not None)
        if not pointers:
            told = "PyTorch's libraries name no flight recorder (stripped?), and nothing in their memory looks like one"
            raise Unavailable(Reason.NOT_FOUND, told)
        return RecorderPlaces(pointers, tuple(layouts), versions.python, registries)

    def _by_symbol(
        self,
        procfs: ProcFs,
        pid: int,
        memory: ProcessMemory,
        library: LoadedFile,
        build_id: bytes | None,
        deadline: Deadline,
    ) -> dict[str, int]:
        """Return addresses by symbol (steps 2 and 5) in one library: nothing where its file cannot be read, too."""
        names = [name.encode() for kind in _KINDS for name in self._table.symbols[kind]]
        try:
            found = self._symbols.find(procfs, pid, library, build_id, names, deadline)
            bias = read_image(memory.read_some, library.base).bias if found else 0
        except (Unavailable, NotPermitted, Gone, NotElf) as error:
            if isinstance(error, Unavailable) and error.reason is Reason.TIMED_OUT:
                raise  # it is there all the same, and would be remembered as absent
            return {}
        return {name.decode(): value + bias for name, value in found.items()}


def _listed(memory: ProcessMemory, registry: int, layout: Layout) -> list[int]:
    paged = PagedMemory(memory, most_given=_MOST_GIVEN)
    pairs = Objects(paged, layout).unordered_map_values(registry)
    return [paged.word(pair + layout["string"].size) for pair in pairs]


def key_of(rank: Rank) -> Key:
    """Return what tells the program of a rank's process from all others."""
    return *rank.key, rank.stat.stack_address


def _build_id(memory: ProcessMemory, library: LoadedFile) -> bytes | None:
    try:
        return build_id_in_memory(memory.read_some, read_image(memory.read_some, library.base))
    except NotElf:
        return None
