"""What a process has mapped (/proc/PID/maps, proc(5)): the files it has loaded, and the memory that it can write."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from shared.missing import Reason

MOST_MAPS_BYTES = 16 * 1024 * 1024
"""The kernel lets a process have 65,530 mappings; with the longest usual paths they take half of it."""

# 7f5a1c000000-7f5a1c026000 r--p 00000000 08:01 131    /usr/lib/x86_64-linux-gnu/libc.so.6
# 55d0c8a5f000-55d0ca1b2000 rw-p 00000000 00:00 0      [heap]
_LINE = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) ([0-9a-f]{1,16}) ([0-9a-f]+:[0-9a-f]+) (\d{1,20}) *(.*)$",
    re.MULTILINE,
)
_DELETED = " (deleted)"
_HEAP = "[heap]"


class MemoryRegion(NamedTuple):
    """One line of the table: addresses from `start` to before `end`, and what is mapped there."""

    start: int
    end: int
    permissions: str
    """As the kernel words them, e.g. `rw-p`."""
    offset: int
    device: str
    inode: int
    path: str
    """As the process sees it; `[heap]`, `[stack]` and such for what has no file, "" for plain memory."""

    @property
    def is_heap(self) -> bool:
        """Is this what malloc takes most memory from, the program break?"""
        return self.path == _HEAP

    @property
    def is_private_data(self) -> bool:
        """Can the process write here, and is it no file's content?"""
        return self.permissions == "rw-p" and (self.is_heap or self.path == "" or self.path.startswith("[anon:"))


class LoadedFile(NamedTuple):
    """A program or library as the loader has put it into memory."""

    path: str
    """Without the kernel's note that the file has been deleted or replaced since."""
    device: str
    inode: int
    regions: tuple[MemoryRegion, ...]

    @property
    def base(self) -> int:
        """Where the beginning of the file lies, with the ELF header."""
        return self.regions[0].start

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]

    def holds(self, address: int) -> bool:
        """Does `address` lie in one of its regions?"""
        return any(region.start <= address < region.end for region in self.regions)


def read_mappings(procfs: ProcFs, pid: int) -> tuple[MemoryRegion, ...]:
    """Return all that a process has mapped, by address. Raises Gone, NotPermitted, or Unavailable of too many."""
    data = procfs.read(pid, "maps", most=MOST_MAPS_BYTES)
    if len(data) >= MOST_MAPS_BYTES:
        raise Unavailable(Reason.REFUSED, f"process {pid} has more mappings than {MOST_MAPS_BYTES} bytes can list")
    return tuple(parse_mappings(data))


def parse_mappings(data: bytes) -> Iterator[MemoryRegion]:
    """Iterate over the lines of /proc/PID/maps; what is no such line is left out."""
    for start, end, permissions, offset, device, inode, path in _LINE.findall(data):
        first, last = int(start, 16), int(end, 16)
        if first < last:
            yield MemoryRegion(
                first, last, permissions.decode(), int(offset, 16), device.decode(), int(inode), os.fsdecode(path)
            )


def loaded_files(regions: Sequence[MemoryRegion], name: re.Pattern[str]) -> tuple[LoadedFile, ...]:
    """Return the files whose names match `name` wholly, each with its regions, in the order of their addresses.

    A file that is mapped twice from its beginning, as a debugger or a loader of models may do, counts as two.
    """
    found: dict[tuple[str, int, str], list[list[MemoryRegion]]] = {}
    for region in regions:
        if region.inode and name.fullmatch(region.path.removesuffix(_DELETED).rpartition("/")[2]):
            groups = found.setdefault((region.device, region.inode, region.path), [])
            if region.offset == 0:
                groups.append([region])
            elif groups:
                groups[-1].append(region)
    return tuple(_loaded(group) for groups in found.values() for group in groups)


def _loaded(regions: list[MemoryRegion]) -> LoadedFile:
    first = regions[0]
    return LoadedFile(first.path.removesuffix(_DELETED), first.device, first.inode, tuple(regions))


def writable_data(regions: Sequence[MemoryRegion]) -> tuple[MemoryRegion, ...]:
    """Return the memory that a process has for its own objects: the heap first, then the rest by address."""
    found = [region for region in regions if region.is_private_data]
    return tuple(sorted(found, key=lambda region: (not region.is_heap, region.start)))


HEAP_PIECE = 8 * 1024 * 1024
"""Read at once where a search may end early: a millisecond or two."""


def cut(region: MemoryRegion, size: int) -> Iterator[MemoryRegion]:
    """Iterate over a region in pieces of `size` bytes, the last one being what is left."""
    for start in range(region.start, region.end, size):
        yield region._replace(start=start, end=min(start + size, region.end))
