"""The members of Gloo's process groups, which its recorder leaves out: from the groups' own objects.

1. The objects are found by the vtable of `c10d::ProcessGroupGloo`, which libtorch_cpu.so exports: the heap first,
   piece by piece up to where all groups that are wanted have been found.
2. Each holds its name, its own place in the group, and options with the global ranks. The world's options name none:
   it has all ranks, in order. Since PyTorch 2.8; docs/layouts.md.
3. A group counts only where this very rank stands at its own place in it.
"""

import re
import struct
from collections.abc import Iterator, Sequence

from agent.deadline import Deadline
from agent.find.choose_ranks import Rank
from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import HEAP_PIECE, MemoryRegion, cut, loaded_files, read_mappings, writable_data
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.memory.search import search_words
from agent.proc.memory.torch_layouts import Layout
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.process_groups import GroupTable
from shared.rank_sets import MOST_RANKS

_LIBRARY = re.compile(r"libtorch_cpu\.so")
_VTABLE = b"_ZTVN4c10d16ProcessGroupGlooE"
_MOST_OBJECTS = 4096
_MOST_BYTES = 2 * 1024 * 1024 * 1024
_MOST_GIVEN = 32 * 1024 * 1024
_RANK_BYTES = 8

Name = tuple[str, str]
"""The name and the description of a group."""


def find_members(
    procfs: ProcFs, rank: Rank, locator: RecorderLocator, wanted: frozenset[Name], deadline: Deadline
) -> GroupTable:
    """Return the members of those of the `wanted` groups that are found. Raises Unavailable, Gone or NotPermitted."""
    pid, started = rank.stat.pid, rank.stat.start_ticks
    with open_memory(procfs, pid, deadline, start_ticks=started, most_bytes=_MOST_BYTES) as memory:
        layouts = locator.locate(procfs, rank, memory, deadline).layouts
        regions = read_mappings(procfs, pid)
        found: GroupTable = {}
        for library in loaded_files(regions, _LIBRARY):
            vtable = find_vtable(memory.read_some, library.base, _VTABLE)
            for region in _in_pieces(writable_data(regions)) if vtable is not None else ():
                result = search_words(procfs, memory, [region], [vtable or 0], most_found=_MOST_OBJECTS)
                for word in result.found:
                    found.update(_members(memory, word.address, layouts, rank))
                if wanted <= found.keys() or not result.is_complete:
                    break
        return {name: members for name, members in found.items() if name in wanted}


def _in_pieces(regions: Sequence[MemoryRegion]) -> Iterator[MemoryRegion]:
    for region in regions:
        yield from cut(region, HEAP_PIECE if region.is_heap else region.end - region.start)


def _members(
    memory: ProcessMemory, address: int, layouts: Sequence[Layout], rank: Rank
) -> Iterator[tuple[Name, tuple[int, ...]]]:
    """Iterate over the one group at an address, or none, by the first layout that fits (steps 2 and 3)."""
    for layout in layouts:
        if not {"gloo", "gloo_options"} <= layout.structures.keys():
            continue
        group, options = layout["gloo"], layout["gloo_options"]
        if "global_ranks_in_group" not in options.fields or "pg_uid_" not in group.fields:
            continue
        paged = PagedMemory(memory, most_given=_MOST_GIVEN)
        objects = Objects(paged, layout)
        try:
            own, size = struct.unpack("<ii", paged.read(address + group.offset("rank_"), 8))
            name = objects.string(address + group.offset("pg_uid_")), objects.string(address + group.offset("pg_desc_"))
            at = paged.word(address + group.offset("options_")) + options.offset("global_ranks_in_group")
            listed = objects.vector(at, _RANK_BYTES)
        except Unreadable:
            continue
        ranks = struct.unpack(f"<{len(listed) // _RANK_BYTES}Q", listed)
        if not ranks and size == rank.identity.world_size:
            ranks = tuple(range(size))
        if 0 <= own < size == len(ranks) == len(set(ranks)) and max(ranks) < MOST_RANKS:
            if ranks[own] == rank.identity.rank:
                yield name, ranks
            return
