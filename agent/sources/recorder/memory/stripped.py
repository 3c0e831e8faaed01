"""Finds the flight recorder of a library that was stripped of its symbols: by what it looks like.

Every pointer in the library's own writable memory that leads to the process's data is held against the layout. Few
things look like a recorder from outside, and none has consecutive, readable entries as well: so one is taken only with
its entries, and only if no other looks like that. In libtorch_cpu.so some fifteen thousand pointers are tried, once.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from agent.proc.memory.mappings import LoadedFile, MemoryRegion, writable_data
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.torch_layouts import Layout
from agent.sources.recorder.memory.entries import EntryReader
from agent.sources.recorder.memory.recorder_header import SwitchedOff, read_header

_MOST_LIBRARY_BYTES = 32 * 1024 * 1024
_MOST_POINTERS = 100_000
_PIECE = 1024 * 1024
_COMPARED = 16
"""Newest entries that must make sense."""
_MOST_GIVEN = 1024 * 1024


def find_stripped(
    memory: ProcessMemory, library: LoadedFile, regions: Sequence[MemoryRegion], layouts: Sequence[Layout]
) -> int | None:
    """Return where a library keeps the pointer to its recorder; None where nothing, or more than one thing, looks so.

    Raises Gone, or Unavailable past a limit.
    """
    found = {
        pointer: place
        for place, pointer in _pointers(memory, library, regions)
        if any(_is_recorder(memory, pointer, layout) for layout in layouts)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _pointers(memory: ProcessMemory, library: LoadedFile, regions: Sequence[MemoryRegion]) -> Iterator[tuple[int, int]]:
    """Iterate over pointers into the process's data, each once: where it stands, and where it leads."""
    data = sorted((region.start, region.end) for region in writable_data(regions))
    starts = [start for start, _ in data]
    seen: set[int] = set()
    for address, words in _own_words(memory, library, regions):
        for place, word in enumerate(words):
            if word & 7 or word in seen or not (at := bisect_right(starts, word)) > 0 or word >= data[at - 1][1]:
                continue
            seen.add(word)
            if len(seen) > _MOST_POINTERS:
                return
            yield address + 8 * place, word


def _own_words(
    memory: ProcessMemory, library: LoadedFile, regions: Sequence[MemoryRegion]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Iterate over the writable memory of a library; variables that begin as zero lie in plain memory behind it."""
    own = [region for region in library.regions if region.permissions.startswith("rw")]
    end = library.regions[-1].end
    own += [region for region in regions if region.start == end and region.is_private_data and not region.path]
    left = _MOST_LIBRARY_BYTES
    for region in own:
        for address in range(region.start, min(region.end, region.start + left), _PIECE):
            data = memory.read_some(address, min(_PIECE, region.end - address))
            left -= len(data)
            yield address, struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _is_recorder(memory: ProcessMemory, address: int, layout: Layout) -> bool:
    try:
        header = read_header(memory, address, layout)
        reader = EntryReader(PagedMemory(memory, most_given=_MOST_GIVEN), layout)
        entries = [reader.copied(entry) for entry in reader.newest_first(header, _COMPARED)]
    except (Unreadable, SwitchedOff):
        return False
    return len(entries) == min(header.held, _COMPARED) > 0
