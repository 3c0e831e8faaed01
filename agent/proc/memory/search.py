"""Searches the memory of a process for 8-byte values, such as the vtable pointers that objects of a class begin with.

Only pages that are in memory are read (/proc/PID/pagemap): a process may have reserved terabytes, and reading must
neither make it grow nor bring back what was swapped out. Bytes are compared by `re`, at some 3 GB/s for one value that
begins with a rare byte; at a tenth of that for alternatives, or where each zero byte might be the beginning.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple, Self

from agent.errors import Gone, Unavailable
from agent.proc.memory.mappings import MemoryRegion
from agent.proc.memory.process_memory import ProcessMemory
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PIECE = 1024 * 1024
_PAGES_AT_ONCE = 65_536
_PRESENT = re.compile(rb"[\x80-\xff]+")
"""Of the last byte of each entry the highest bit says that the page is in memory (Documentation/admin-guide/mm)."""
_LOW_BYTES = 6
"""Of an address in user space: looking for the two zero bytes as well would stop at every small number."""
_MOST_SKIPPED = 2
"""Of these bytes, to begin with a rarer one: the address of a vtable may well end in zero. What is left of it is
common to 64 KiB of addresses."""


class FoundWord(NamedTuple):
    """Where one of the values stands."""

    address: int
    value: int


class SearchResult(NamedTuple):
    """What was found, and whether that is all there is."""

    found: tuple[FoundWord, ...]
    is_complete: bool
    """Was everything searched? Not where the budget of bytes, the time or the most that is told came first."""


def search_words(
    procfs: ProcFs,
    memory: ProcessMemory,
    regions: Iterable[MemoryRegion],
    values: Sequence[int],
    *,
    most_found: int = 4096,
) -> SearchResult:
    """Look in `regions`, in their order, for aligned 8-byte values that equal one of `values`.

    The budget and the deadline are those of `memory`; at their end what was found by then is returned. Raises Gone.
    """
    wanted: tuple[_Wanted, ...] = ()
    found = list[FoundWord]()
    try:
        for address, data in _pieces(procfs, memory, regions):
            wanted = wanted or tuple(_Wanted.among(data, value) for value in values)
            found += sorted(FoundWord(address + at, each.value) for each in wanted for at in each.places(data))
            if len(found) >= most_found:
                return SearchResult(tuple(found[:most_found]), False)
    except Unavailable:
        return SearchResult(tuple(found), False)
    return SearchResult(tuple(found), True)


class _Wanted(NamedTuple):
    """A value, and a pattern of those of its bytes that are searched for."""

    value: int
    packed: bytes
    pattern: re.Pattern[bytes]
    skipped: int

    @classmethod
    def among(cls, sample: bytes | bytearray, value: int) -> Self:
        """Search such memory for a value by what begins with the rarest of its first bytes."""
        whole = struct.pack("<Q", value)
        skipped = min(range(_MOST_SKIPPED + 1), key=lambda at: sample.count(whole[at]))
        return cls(value, whole, re.compile(re.escape(whole[skipped:_LOW_BYTES])), skipped)

    def places(self, data: bytes | bytearray) -> Iterator[int]:
        """Iterate over where the value stands."""
        match = self.pattern.search(data)
        while match is not None:
            at = match.start() - self.skipped
            if at >= 0 and at % 8 == 0 and data[at : at + 8] == self.packed:
                yield at
            match = self.pattern.search(data, match.start() + 1)


def _pieces(
    procfs: ProcFs, memory: ProcessMemory, regions: Iterable[MemoryRegion]
) -> Iterator[tuple[int, bytes | bytearray]]:
    """Iterate over what is in memory of `regions`, as (address, bytes); the bytes are overwritten by the next."""
    buffer = bytearray(_PIECE)
    with ExitStack() as opened:
        pagemap = None
        with suppress(Gone, NotPermitted):  # there is none, as under gVisor
            pagemap = opened.enter_context(procfs.opened(memory.pid, "pagemap"))
        for region in regions:
            for start, end in _present(pagemap, region.start, region.end):
                for address in range(start, end, _PIECE):
                    size = min(_PIECE, end - address)
                    if size == _PIECE:
                        yield address, buffer[:count] if (count := memory.read_into(buffer, address)) < size else buffer
                    else:
                        yield address, memory.read_some(address, size)


def _present(pagemap: int | None, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Iterate over the parts of a range of addresses that are in memory; all of it where the kernel does not say."""
    if pagemap is None:
        yield start, end
        return
    for first in range(start, end, _PAGES_AT_ONCE * _PAGE):
        count = min(_PAGES_AT_ONCE, (end - first) // _PAGE)
        entries = os.pread(pagemap, 8 * count, first // _PAGE * 8)
        for run in _PRESENT.finditer(entries[7::8]):
            yield first + run.start() * _PAGE, first + run.end() * _PAGE
