"""Reads a rank's flight record from its memory: found, copied, checked, and put into the form of a dump.

Nothing runs in the rank and nothing of it is stopped, so this works on one that spins, holds the GIL, is stopped, or is
blocked in the kernel. What does not fit is no record: `Unavailable` says why, in words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.memory.torch_layouts import Layout
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.call_sites import CallSites, Frames
from agent.sources.recorder.memory.dump_form import dump_of
from agent.sources.recorder.memory.entries import CopiedEntry, EntryReader, not_overwritten
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.recorder_header import (
    Implausible,
    RecorderHeader,
    Status,
    read_header,
    read_library_version,
    read_members,
    read_statuses,
)
from agent.sources.recorder.memory.window import needed
from shared.errors import UnreadableDump
from shared.formats.recorder.dump import build_trace
from shared.missing import Reason
from shared.wire.trace import Origin, Trace

NEWEST = 8_192
"""Entries that a plain look copies: PyTorch keeps 2,000 by default."""
ALL = 65_536
"""Entries that are copied of the largest recorder."""
_TRIES = 3
_MOST_READ = 128 * 1024 * 1024
_MOST_GIVEN = 48 * 1024 * 1024
"""Bytes that all objects of a record come to. 2,000 entries need two megabytes, 65,536 some forty."""


class CopiedRecord(NamedTuple):
    """What one recorder holds."""

    entries: Sequence[tuple[CopiedEntry, Frames]]
    """Oldest first."""
    statuses: dict[int, Status]
    members: dict[tuple[str, str], tuple[int, ...]]
    library: str
    is_cut: bool
    """Does the recorder hold entries that were not copied?"""

    @property
    def whole_from(self) -> int:
        """The position from which no entry is left out: their numbers follow each other."""
        numbers = [entry.plain.id for entry, _ in self.entries]
        return next((at for at in range(len(numbers) - 1, 0, -1) if numbers[at - 1] != numbers[at] - 1), 0)

    def trace(self) -> Trace:
        """Take it apart as a dump is. Raises Unavailable."""
        try:
            trace = build_trace(*dump_of(self.entries, self.statuses, self.members, self.library))
        except UnreadableDump as error:
            raise Unavailable(Reason.UNREADABLE, str(error)) from error
        truncated = trace.truncated or self.is_cut
        return trace.model_copy(
            update={"origin": (Origin.MEMORY,), "truncated": truncated, "whole_from": self.whole_from}
        )


def copy_records(
    procfs: ProcFs,
    rank: Rank,
    locator: RecorderLocator,
    deadline: Deadline,
    *,
    most: int = NEWEST,
    window: int | None = None,
) -> list[CopiedRecord]:
    """Copy each recorder of a rank: of its newest `most` entries those that `window` needs (window.py), None for all.

    Raises Unavailable, Gone or NotPermitted.
    """
    with open_memory(procfs, rank.stat, deadline, most_bytes=_MOST_READ) as memory:
        where = locator.locate(procfs, rank, memory, deadline)
        recorders = where.recorders(memory)
        return [copy_recorder(memory, address, where.layouts, where.python, most, window) for address in recorders]


def copy_recorder(
    memory: ProcessMemory,
    address: int,
    layouts: Sequence[Layout],
    python: str | None,
    most: int,
    window: int | None = None,
) -> CopiedRecord:
    """Copy the recorder at `address`, of one of these layouts; what is torn is copied again.

    `python` is the version of Python. Raises Unavailable or Gone.
    """
    layout = _fitting(memory, address, layouts)
    for left in reversed(range(_TRIES)):
        try:
            return _copy_once(memory, address, layout, python, most, window)
        except Unreadable as error:
            if left == 0:
                told = f"{error} (tried {_TRIES} times, because a rank that is writing looks like that for a moment)"
                raise Unavailable(Reason.UNREADABLE, told) from error
    raise AssertionError("there is at least one try")


def _fitting(memory: ProcessMemory, address: int, layouts: Sequence[Layout]) -> Layout:
    """Return the first layout by which there is a flight recorder at `address`. Raises Unreadable where none fits."""
    for layout in layouts[:-1]:
        try:
            header = read_header(memory, address, layout)
            next(_entries(PagedMemory(memory, most_given=_MOST_GIVEN), header, layout, 1, None), None)
        except Unreadable:
            continue
        return layout
    return layouts[-1]


def _copy_once(
    memory: ProcessMemory, address: int, layout: Layout, python: str | None, most: int, window: int | None
) -> CopiedRecord:
    before = read_header(memory, address, layout)
    paged = PagedMemory(memory, most_given=_MOST_GIVEN)
    entries = list(_entries(paged, before, layout, most, window))
    sites = CallSites(paged, layout, python)
    with_sites = [(entry, sites.of(entry.plain.traceback)) for entry in entries]
    statuses, members = read_statuses(paged, before, layout), read_members(paged, before, layout)
    library = read_library_version(paged, before, layout)
    after = read_header(memory, address, layout)
    kept = not_overwritten(entries, before, after)
    return CopiedRecord(with_sites[: len(kept)][::-1], statuses, members, library, before.held > len(kept))


def _entries(
    paged: PagedMemory, header: RecorderHeader, layout: Layout, most: int, window: int | None
) -> Iterator[CopiedEntry]:
    """Iterate over entries, newest first, as far as they can be read: older ones may be overwritten just now."""
    reader = EntryReader(paged, layout)
    count = 0
    newest = reader.newest_first(header, most)
    for found in newest if window is None else needed(newest, reader, window):
        try:
            yield reader.copied(found)
        except Unreadable:
            break
        count += 1
    if header.held and header.id and not count:
        raise Implausible(f"the newest entry of the flight recorder at {header.address:#x} is none")
