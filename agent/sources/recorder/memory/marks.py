"""How far each process group of a rank has got, from a few small reads: cheap enough for every beat.

Read are the recorder's header, the status of each group, and the entries that were written since the last time: one
piece of memory, the first time up to a megabyte. They tell what the numbers of groups stand for, and since when a group
has issued nothing more. A mark that was read while the rank wrote may be one operation behind.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.ranks import Rank
from agent.proc.memory.layouts import Layout
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.entries import CopiedEntry, EntryReader
from agent.sources.recorder.memory.locator import Key, RecorderLocator, key_of
from agent.sources.recorder.memory.recorder_object import RecorderHeader, Status, read_header, read_statuses
from shared.missing import Reason

_MOST_ENTRIES = 2_000
_MOST_REMEMBERED = 1_024
_MOST_GIVEN = 4 * 1024 * 1024
_UNSEEN = Status(None, None, None)


class GroupMark(NamedTuple):
    """How far one process group of one rank has got."""

    name: str
    description: str
    issued: int | None
    """The last collective that was called; None before the first, as with groups that only send and receive."""
    started: int | None
    completed: int | None
    operation: str
    """What was issued last, as PyTorch names it, e.g. `nccl:all_reduce`."""
    issued_ns: int
    """When that was, in Unix nanoseconds."""


@dataclass
class _Recorder:
    """What is remembered of one recorder."""

    layout: Layout
    epoch: int
    id: int = 0
    newest: dict[int, CopiedEntry] = field(default_factory=dict)
    """By the number of its group."""


class MarkReader:
    """Reads the marks of ranks, and remembers which groups they have. Safe from many threads."""

    def __init__(self, locator: RecorderLocator) -> None:
        self._locator = locator
        self._known: dict[tuple[Key, int], _Recorder] = {}
        self._lock = threading.Lock()

    def read(self, procfs: ProcFs, rank: Rank, deadline: Deadline) -> tuple[GroupMark, ...]:
        """Return the marks of all groups that a rank has used. Raises Unavailable, Gone or NotPermitted."""
        with open_memory(procfs, rank.stat.pid, deadline, start_ticks=rank.stat.start_ticks) as memory:
            where = self._locator.locate(procfs, rank, memory, deadline)
            addresses = [address for address in map(memory.word, where.pointers) if address]
            if not addresses:
                raise Unavailable(Reason.NOT_FOUND, "PyTorch has made no flight recorder in this rank")
            marks = (self._marks(memory, (key_of(rank), address), where.layouts) for address in addresses)
            return tuple(mark for some in marks for mark in some)

    def _marks(self, memory: ProcessMemory, key: tuple[Key, int], layouts: Iterable[Layout]) -> list[GroupMark]:
        with self._lock:
            known = self._known.get(key)
        for layout in layouts if known is None else (known.layout,):
            try:
                known, statuses = _read(memory, key[1], layout, known)
            except Unreadable as error:
                failed = error
                continue
            with self._lock:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[key] = known
            return _merged(known.newest, statuses)
        raise failed


def _read(
    memory: ProcessMemory, address: int, layout: Layout, known: _Recorder | None
) -> tuple[_Recorder, dict[int, Status]]:
    header = read_header(memory, address, layout)
    if known is None or known.epoch != header.epoch or known.id > header.id:
        known = _Recorder(layout, header.epoch)
    paged = PagedMemory(memory, most_given=_MOST_GIVEN)
    newest = known.newest | _newest(paged, header, layout, min(header.id - known.id, _MOST_ENTRIES))
    return _Recorder(layout, header.epoch, header.id, newest), read_statuses(paged, header, layout)


def _newest(paged: PagedMemory, header: RecorderHeader, layout: Layout, most: int) -> dict[int, CopiedEntry]:
    """Return the newest of the last `most` entries of each group. Raises Unreadable."""
    reader = EntryReader(paged, layout)
    found: dict[int, CopiedEntry] = {}
    for entry in reader.newest_first(header, most):
        if entry.plain.pg_id not in found:
            found[entry.plain.pg_id] = reader.copied(entry)
    return found


def _merged(newest: dict[int, CopiedEntry], statuses: dict[int, Status]) -> list[GroupMark]:
    return [_mark(entry, statuses.get(pg_id, _UNSEEN)) for pg_id, entry in sorted(newest.items())]


def _mark(entry: CopiedEntry, status: Status) -> GroupMark:
    """Put the two together. An operation is recorded before the status of its group is set."""
    name, description = entry.group
    recorded = entry.plain.collective_seq or None
    issued = max((number for number in (status.issued, recorded) if number is not None), default=None)
    operation, created = entry.profiling_name, entry.plain.created_ns
    return GroupMark(name, description, issued, status.started, status.completed, operation, created)
