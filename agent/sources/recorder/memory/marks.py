"""How far each process group of a rank has got, from a few small reads: cheap enough for every beat.

Read are the recorder's header, the status of each group, and the entries that were written since the last time: one
piece of memory, the first time up to a megabyte. They tell what the numbers of groups stand for, and since when a group
has issued nothing more. A mark that was read while the rank wrote may be one operation behind.

Of a rank without a record the same is told by the counters of its groups (group_counters.py). They do not hold when an
operation that is over was issued: that is when it was first counted.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.memory.torch_layouts import Layout
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from agent.sources.recorder.memory.entries import EntryReader, FoundEntry
from agent.sources.recorder.memory.group_counters import CounterReader, GroupCounters, Name
from agent.sources.recorder.memory.locator import Key, RecorderLocator, key_of
from agent.sources.recorder.memory.recorder_header import RecorderHeader, Status, read_header, read_statuses
from shared.errors import NotPermitted
from shared.formats.recorder.hooked import counted, is_hooked

_MOST_ENTRIES = 2_000
_MOST_REMEMBERED = 256
_MOST_GROUPS = 256
_MOST_TEXT = 256
"""What is remembered of one rank is the rank's to choose: together these come to some tens of megabytes."""
_MOST_GIVEN = 4 * 1024 * 1024
_UNSEEN = Status(None, None, None)

_Issued = tuple[tuple[int, int], int]
"""How many collectives and others a group has issued, and when the last one, in Unix nanoseconds."""


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
    timeout_ms: int = 0
    """How long it may take; 0: not known."""
    has_pairs: bool = False
    """Has it sent or received, too?"""


@dataclass
class _Recorder:
    """What is remembered of one recorder."""

    layout: Layout
    epoch: int
    id: int = 0
    newest: dict[int, GroupMark] = field(default_factory=dict)
    """What the newest entry of each group says, by the group's number."""


class MarkReader:
    """Reads the marks of ranks, and remembers which groups they have. Safe from many threads."""

    def __init__(self, locator: RecorderLocator) -> None:
        self._locator = locator
        self._counters = CounterReader(locator)
        self._known = Remembered[_Recorder](_MOST_REMEMBERED)
        self._issued = Remembered[dict[Name, _Issued]](_MOST_REMEMBERED)

    def read(self, procfs: ProcFs, rank: Rank, deadline: Deadline) -> tuple[GroupMark, ...]:
        """Return the marks of all groups that a rank has used. Raises Unavailable, Gone or NotPermitted."""
        try:
            with open_memory(procfs, rank.stat, deadline) as memory:
                where = self._locator.locate(procfs, rank, memory, deadline)
                recorders = where.recorders(memory)
                marks = (self._marks(memory, (key_of(rank), address), where.layouts) for address in recorders)
                return tuple(mark for some in marks for mark in some)
        except Unavailable as error:
            return self._counted(procfs, rank, deadline, error)

    def _counted(self, procfs: ProcFs, rank: Rank, deadline: Deadline, why: Unavailable) -> tuple[GroupMark, ...]:
        """Return the marks of a rank without a record, by its groups. Raises `why` where they do not tell either."""
        try:
            counters = self._counters.read(procfs, rank, deadline)
        except (Unavailable, NotPermitted):
            raise why from None
        before = self._issued.get(key_of(rank)) or {}
        issued = self._issued.put(key_of(rank), {one.name: _when_issued(one, before.get(one.name)) for one in counters})
        return tuple(_counted_mark(one, issued[one.name][1]) for one in counters)

    def _marks(self, memory: ProcessMemory, key: tuple[Key, int], layouts: Iterable[Layout]) -> list[GroupMark]:
        known = self._known.get(key)
        for layout in layouts if known is None else (known.layout,):
            try:
                known, statuses = _read(memory, key[1], layout, known)
            except Unreadable as error:
                failed = error
                continue
            return _merged(self._known.put(key, known).newest, statuses)
        raise failed


def _when_issued(one: GroupCounters, before: _Issued | None) -> _Issued:
    """Return how many operations were issued, and when the last of them was: it must not change while they do not."""
    count = one.collectives, one.pairs
    if before is not None and before[0] == count:
        return before
    return count, max((work.issued_ns for work in one.pending), default=time.time_ns())


def _counted_mark(one: GroupCounters, issued_ns: int) -> GroupMark:
    (name, description), operation = (text[:_MOST_TEXT] for text in one.name), f"nccl:{one.last}"[:_MOST_TEXT]
    issued, started = one.collectives or None, one.status.started
    timeout = one.group.timeout_ms
    return GroupMark(name, description, issued, started, one.completed, operation, issued_ns, timeout)


def _read(
    memory: ProcessMemory, address: int, layout: Layout, known: _Recorder | None
) -> tuple[_Recorder, dict[int, Status]]:
    header = read_header(memory, address, layout)
    if known is None or known.epoch != header.epoch or known.id > header.id:
        known = _Recorder(layout, header.epoch)
    paged = PagedMemory(memory, most_given=_MOST_GIVEN)
    wanted = min(header.id - known.id, header.held, _MOST_ENTRIES)
    newest, seen = _newest(paged, header, layout, wanted)
    older = ((pg_id, mark) for pg_id, mark in known.newest.items() if pg_id not in newest)
    together = dict(islice(chain(newest.items(), older), _MOST_GROUPS))
    reached = header.id if seen == wanted else known.id  # what was torn is read again
    return _Recorder(layout, header.epoch, reached, together), read_statuses(paged, header, layout)


def _newest(paged: PagedMemory, header: RecorderHeader, layout: Layout, most: int) -> tuple[dict[int, GroupMark], int]:
    """Return what the newest of the last `most` entries of each group says, and how many were read.

    Raises Unreadable.
    """
    reader = EntryReader(paged, layout)
    entries, seen = reader.newest_of_groups(header, most)
    return {entry.plain.pg_id: _mark(reader, entry) for entry in entries}, seen


def _mark(reader: EntryReader, entry: FoundEntry) -> GroupMark:
    name, description, operation = (text[:_MOST_TEXT] for text in reader.names(entry))
    plain = entry.plain
    issued, paired = plain.collective_seq or None, bool(plain.p2p_seq)
    return GroupMark(name, description, issued, None, None, operation, plain.created_ns, plain.timeout_ms, paired)


def _merged(newest: dict[int, GroupMark], statuses: dict[int, Status]) -> list[GroupMark]:
    """Put them together by number. Of groups with one name all but the last have been made again since."""
    living: dict[Name, int] = {}
    for pg_id, mark in sorted(newest.items(), key=lambda each: each[1].issued_ns):
        living[mark.name, mark.description] = pg_id
    return [_with_status(newest[pg_id], statuses.get(pg_id, _UNSEEN)) for pg_id in sorted(living.values())]


def _with_status(mark: GroupMark, status: Status) -> GroupMark:
    """Put the two together. An operation is recorded before the status of its group is set."""
    if is_hooked(mark.operation):
        status = Status(*(counted(number, with_pairs=mark.has_pairs) for number in status))
    issued = max((number for number in (status.issued, mark.issued) if number is not None), default=None)
    return mark._replace(issued=issued, started=status.started, completed=status.completed)
