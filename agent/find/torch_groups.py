"""Finds the process group that makes a process a rank: PyTorch's own object, in the memory of the process.

Environments are what launchers write, and a rank needs none: `mp.spawn` hands the rank over as an argument, Lightning
computes it. What every rank has, on every backend, is a `c10d::ProcessGroup`.

1. The vtables of PyTorch's classes are exported by libtorch_cpu.so: an object of a class begins with its address.
2. The memory that the process keeps its objects in is searched for that of `c10d::ProcessGroup`, piece by piece up to
   where the world's group is found: the heap first, and of it the part that follows what importing PyTorch fills, since
   a world is made soon after; then the arenas of threads, which glibc aligns, then the rest.
3. What is found must be one: its store is a `PrefixStore`, its rank lies below its size. The stores behind it end at
   the one where the job met: a `TCPStore` has the address, which is the same on all nodes and no other job's meanwhile.
4. Of several groups the world is the one that was made first, whose keys begin with `0/`; else the largest.
5. Who has no group yet may be the rank 0 that waits for the others: it hosts the store where they meet, and does not
   leave the constructor of its `TCPStore` until all have come. No pointer counts a reference to the object until then;
   a launcher that only hosts a store does not wait.
6. Who only makes remote calls has no group, but an agent for them, with a rank and a size (remote_calls.py). Where it
   has both, the agent tells who it is if it knows more ranks and gives it the same number: some average their weights.

Layout: ProcessGroup.hpp in torch/csrc/distributed/c10d, unchanged from 2.1 to 2.15; that of stores is in
torch_stores.py. What a process holds it may have made up: all is bounded, and whoever poses as a rank poses as one of
their own jobs.
"""

import struct
from collections.abc import Iterator, Sequence

from agent.errors import Unavailable
from agent.find.remote_calls import current_agent
from agent.find.torch_stores import (
    FIELDS_AT,
    LARGEST_SIZE,
    TCP,
    NoSuchObject,
    TorchGroup,
    Vtables,
    find_vtables,
    name_of,
    string,
    walk,
)
from agent.proc.memory.mappings import HEAP_PIECE, MemoryRegion, cut, writable_data
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.search import search_words
from agent.proc.procfs import ProcFs
from shared.missing import Reason

_PIECE = 64 * 1024 * 1024
"""glibc begins the arenas of threads at multiples of this (HEAP_MAX_SIZE in malloc/arena.c), and none is larger."""
_IMPORTED = 64 * 1024 * 1024
"""What the import of PyTorch 2.13 leaves in the heap; groups were found 12 to 34 MiB behind it."""
_SOON_AFTER = 256 * 1024 * 1024
_MOST_GROUPS = 4096
_WORLD_PREFIX = b"0"


def find_group(
    procfs: ProcFs,
    memory: ProcessMemory,
    regions: Sequence[MemoryRegion],
    *,
    copied: TorchGroup | None = None,
    or_awaited: bool = True,
    surely: bool = False,
) -> TorchGroup | None:
    """Return the group of the world in a process that has mapped `regions`, or its agent for calls; None: it has none.

    `copied`: the group of the rank that this process was forked from. Smaller groups in it may be that rank's, too.
    `or_awaited`: where it has none, the one for whose other ranks it waits. `surely`: threads of a group run in it.

    None as well where the limits of `memory` came before any was found. Raises Gone, or Unavailable where they came and
    only a smaller group was found by then: that is no world, and would give the process another rank than its own. The
    same where none was found in one that surely has one.
    """
    vtables = find_vtables(memory, regions)
    if vtables is None:
        return None
    called, found, awaited = current_agent(memory, vtables), list[TorchGroup](), list[TorchGroup]()
    store = next((at for at, name in vtables.stores.items() if or_awaited and name == TCP), None)
    wanted = [vtables.group] if store is None else [vtables.group, store]
    for piece in _in_order(writable_data(regions)):
        result = search_words(procfs, memory, [piece], wanted, most_found=_MOST_GROUPS)
        for word in result.found:
            one, kept = (_group, found) if word.value == vtables.group else (_awaited, awaited)
            group = one(memory, word.address, vtables)
            if group is not None and (group.is_awaited or _is_own(group, copied)):
                kept.append(group)
        if any(group.is_first for group in found):
            break
        if not result.is_complete:
            if (found or surely) and len(result.found) < _MOST_GROUPS:
                raise Unavailable(Reason.TIMED_OUT, f"the memory of process {memory.pid} was not searched to its end")
            break
    world = max(found, key=lambda group: (group.is_first, group.size, -group.address), default=None)
    if called is not None and called != copied and _is_wider(called, world):
        return called
    return world if world is not None else next(iter(awaited), None)


def find_called(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> TorchGroup | None:
    """Return what a process is by its agent for calls, which takes no search; None where it has none. Raises Gone."""
    vtables = find_vtables(memory, regions)
    return None if vtables is None else current_agent(memory, vtables)


def _is_wider(called: TorchGroup, world: TorchGroup | None) -> bool:
    """Step 6."""
    return world is None or (called.rank == world.rank and called.size > world.size)


def _is_own(group: TorchGroup, copied: TorchGroup | None) -> bool:
    return copied is None or (group.is_first and group != copied)


def is_still_there(memory: ProcessMemory, group: TorchGroup) -> bool:
    """Has the process not destroyed this group, or does it still wait for it? Raises as `find_group` does."""
    if group.is_awaited:
        return _awaited(memory, group.address, group.vtables) == group
    return current_agent(memory, group.vtables) == group or _group(memory, group.address, group.vtables) == group


def _in_order(regions: Sequence[MemoryRegion]) -> Iterator[MemoryRegion]:
    """Step 2."""
    for heap in (region for region in regions if region.is_heap):
        imported, after = (min(heap.start + size, heap.end) for size in (_IMPORTED, _SOON_AFTER))
        for start, end in ((imported, after), (heap.start, imported), (after, heap.end)):
            yield from cut(heap._replace(start=start, end=end), HEAP_PIECE)
    others = (region for region in regions if not region.is_heap)
    for region in sorted(others, key=lambda region: region.start % _PIECE != 0):
        yield from cut(region, _PIECE)


def _group(memory: ProcessMemory, address: int, vtables: Vtables) -> TorchGroup | None:
    """Step 3; None where something else only looks like one."""
    try:
        vtable, _, store, numbers = memory.words(address, 4)
        rank, size = struct.unpack("<ii", struct.pack("<Q", numbers))
        if vtable != vtables.group or not 0 <= rank < size <= LARGEST_SIZE:
            return None
        prefixes, end = walk(memory, store, vtables)
        if not prefixes:
            return None
        return TorchGroup(vtables, address, rank, size, name_of(memory, end, vtables), prefixes[0] == _WORLD_PREFIX)
    except (NoSuchObject, Unreadable):
        return None


def _awaited(memory: ProcessMemory, address: int, vtables: Vtables) -> TorchGroup | None:
    """Step 5; None where the store is somebody else's, or does not wait, or something else only looks like one."""
    try:
        vtable, references = memory.words(address, 2)
        _, after = string(memory, address + FIELDS_AT)
        _, server, _, _, size, is_known = memory.words(after, 6)
        waits = vtables.stores.get(vtable) == TCP and not references and server and is_known & 0xFF
        if not waits or not 1 < size <= LARGEST_SIZE:
            return None
        return TorchGroup(vtables, address, 0, size, name_of(memory, address, vtables), False, is_awaited=True)
    except (NoSuchObject, Unreadable):
        return None
