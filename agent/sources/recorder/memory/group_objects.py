"""Process groups as a rank's own memory holds them: PyTorch's C++ objects of Gloo's and of NCCL's groups.

1. The objects are found by the vtable of their class, which PyTorch's library exports: the heap first, piece by piece.
2. Each holds its name, its own place in the group, and options with the global ranks. The world's options name none:
   it has all ranks, in order. Gloo's name them since PyTorch 2.8, NCCL's since 2.4; docs/layouts.md.
3. A group counts only where this very rank stands at its own place in it: by another layout it would not.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import HEAP_PIECE, cut, loaded_files, read_mappings, writable_data
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.search import search_words
from agent.proc.memory.torch_layouts import Layout
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from shared.rank_sets import MOST_RANKS

MOST_SEARCHED = 2 * 1024 * 1024 * 1024
"""Bytes of a rank in which its groups are sought."""
_MOST_OBJECTS = 4096
_MOST_GIVEN = 32 * 1024 * 1024
_RANK_BYTES = 8


class GroupClass(NamedTuple):
    """One class of process groups."""

    library: re.Pattern[str]
    vtable: bytes
    structure: str
    """In the table of layouts; that of its options has the same name with `_options`."""


GLOO = GroupClass(re.compile(r"libtorch_cpu\.so"), b"_ZTVN4c10d16ProcessGroupGlooE", "gloo")
NCCL = GroupClass(re.compile(r"libtorch_(?:cuda|hip)\.so"), b"_ZTVN4c10d16ProcessGroupNCCLE", "nccl")


class GroupObject(NamedTuple):
    """One group."""

    address: int
    vtable: int
    layout: Layout
    name: str
    description: str
    place: int
    """The group rank of this very rank."""
    members: tuple[int, ...]
    """Global ranks by group rank."""
    timeout_ms: int


def find_objects(
    procfs: ProcFs, rank: Rank, memory: ProcessMemory, kind: GroupClass, layouts: Sequence[Layout]
) -> Iterator[tuple[bool, list[GroupObject]]]:
    """Iterate over the groups of a rank, by pieces of its memory: is a piece of the heap, and what is found in it.

    Raises Gone, or Unavailable where the limits of `memory` come.
    """
    regions = read_mappings(procfs, rank.stat.pid)
    for library in loaded_files(regions, kind.library):
        vtable = find_vtable(memory.read_some, library.base, kind.vtable)
        for region in writable_data(regions) if vtable is not None else ():
            for piece in cut(region, HEAP_PIECE if region.is_heap else region.end - region.start):
                result = search_words(procfs, memory, [piece], [vtable or 0], most_found=_MOST_OBJECTS)
                groups = (read_group(memory, word.address, word.value, layouts, rank, kind) for word in result.found)
                yield region.is_heap, [group for group in groups if group is not None]
                if not result.is_complete:
                    told = f"the memory of process {rank.stat.pid} was not searched to its end"
                    raise Unavailable(Reason.TIMED_OUT, told)


def read_group(
    memory: ProcessMemory, address: int, vtable: int, layouts: Sequence[Layout], rank: Rank, kind: GroupClass
) -> GroupObject | None:
    """Return the group at an address by the first layout that fits; None where there is none (steps 2 and 3)."""
    for layout in layouts:
        structures = layout.structures
        group, options = structures.get(kind.structure), structures.get(f"{kind.structure}_options")
        if group is None or options is None or "global_ranks_in_group" not in options.fields:
            continue
        uid = "pg_uid_" if "pg_uid_" in group.fields else "pg_name_"
        paged = PagedMemory(memory, most_given=_MOST_GIVEN)
        objects = Objects(paged, layout)
        try:
            if paged.word(address) != vtable:
                return None
            own, size = struct.unpack("<ii", paged.read(address + group.offset("rank_"), 8))
            name, description = (objects.string(address + group.offset(field)) for field in (uid, "pg_desc_"))
            about = paged.word(address + group.offset("options_"))
            listed = objects.vector(about + options.offset("global_ranks_in_group"), _RANK_BYTES)
            timeout = paged.word(about + options.offset("timeout"))
        except Unreadable:
            continue
        ranks = struct.unpack(f"<{len(listed) // _RANK_BYTES}Q", listed)
        if not ranks and size == rank.identity.world_size:
            ranks = tuple(range(size))
        if 0 <= own < size == len(ranks) == len(set(ranks)) and max(ranks) < MOST_RANKS:
            if ranks[own] == rank.identity.rank:
                return GroupObject(address, vtable, layout, name, description, own, ranks, timeout)
            return None
    return None
