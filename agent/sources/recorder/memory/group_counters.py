"""How far each of NCCL's process groups is without a flight record: by the counters in the groups' own objects.

1. A group counts its collectives and its sends and receives (`seqCollective_`, `seqP2P_`), and keeps each operation
   that its watchdog has not seen completed (`workMetaList_`): number, kind, elements and start. That is the trace of
   what is unfinished, without what was before, types, peers and call sites.
2. None of it is believed unless all fits: works are of their class and of this group, and their numbers end at or
   below its counters. A rank that runs changes it meanwhile: then it is read again.
3. Where the groups lie is remembered. They are sought again now and then, since new ones may have been made.

Until 2.14 that is `c10d::ProcessGroupNCCL`. The class behind `nccl` since 2.15 keeps its works in another way.
"""

import struct
import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from agent.sources.recorder.memory.group_objects import (
    MOST_SEARCHED,
    NCCL,
    GroupObject,
    find_objects,
    read_group,
)
from agent.sources.recorder.memory.locator import RecorderLocator, key_of
from agent.sources.recorder.memory.recorder_header import Status, read_status
from shared.missing import Reason

_MOST_WORKS = 2_048
"""Of one group. A rank that runs ahead may have issued thousands; the oldest tell where it stands."""
_MOST_GIVEN = 16 * 1024 * 1024
_MOST_GROUPS = 256
_TRIES = 3
_KNOWN_SECONDS = 60.0
"""For how long groups that were made meanwhile may be overlooked: a search of the heap takes a tenth of a second."""
_NEAR = 1024 * 1024
"""Bytes between the vtables of two classes of one file of the source: of a group and of its operations some hundred."""

_AHEAD_NS = time.time_ns() - time.monotonic_ns()
"""Unix time of the steady clock's zero. Taken once: an operation must not seem newer in each look."""

# enum class OpType in torch/csrc/distributed/c10d/Work.hpp, by the names that the flight recorder has for them.
OPERATIONS = (
    "broadcast all_reduce all_reduce_coalesced reduce all_gather all_gather_into_tensor all_gather_coalesced gather "
    "scatter reduce_scatter all_to_all_single all_to_all send recv recv barrier reduce_scatter_tensor coalesced "
    "all_reduce_sparse reduce_scatter_tensor_coalesced all_gather_into_tensor_coalesced"
).split()


Name = tuple[str, str]
"""The name and the description of a group."""


class PendingWork(NamedTuple):
    """An operation that was issued and is not known to be completed."""

    number: int
    """Among the collectives of its group, or among its sends and receives."""
    op: str
    is_p2p: bool
    elements_in: int
    elements_out: int
    """Negative: not told."""
    issued_ns: int
    """Unix nanoseconds."""
    timeout_ms: int


class GroupCounters(NamedTuple):
    """How far one group of a rank is."""

    group: GroupObject
    collectives: int
    """Issued."""
    pairs: int
    """Sends and receives issued."""
    status: Status
    last: str
    """What was issued last, as PyTorch names it, e.g. `ALLREDUCE`."""
    pending: tuple[PendingWork, ...]
    """Oldest first."""

    @property
    def name(self) -> Name:
        return self.group.name, self.group.description

    @property
    def completed(self) -> int | None:
        """The last collective of those before the first pending one; None: not known."""
        first = min((work.number for work in self.pending if not work.is_p2p), default=None)
        if first is not None:
            return first - 1
        return None if self.pairs else self.status.completed


class CounterReader:
    """Reads the counters of ranks, and remembers where they are. Safe from many threads."""

    def __init__(self, locator: RecorderLocator) -> None:
        self._locator = locator
        self._known = Remembered[tuple[float, tuple[GroupObject, ...]]]()

    def read(self, procfs: ProcFs, rank: Rank, deadline: Deadline) -> tuple[GroupCounters, ...]:
        """Return the counters of all groups of NCCL.

        Raises Unavailable where there are none, Gone or NotPermitted.
        """
        with open_memory(procfs, rank.stat, deadline, most_bytes=MOST_SEARCHED) as memory:
            groups = self._groups(procfs, rank, memory, deadline)
            for left in reversed(range(_TRIES)):
                try:
                    return tuple(_counters(memory, group) for group in groups)
                except Unreadable:
                    if left == 0:
                        raise
        raise AssertionError("there is at least one try")

    def _groups(self, procfs: ProcFs, rank: Rank, memory: ProcessMemory, deadline: Deadline) -> tuple[GroupObject, ...]:
        key, now = key_of(rank), time.monotonic()
        at, known = self._known.get(key) or (now, ())
        if known and now - at < _KNOWN_SECONDS and all(_is_there(memory, group, rank) for group in known):
            return known
        found: list[GroupObject] = []
        layouts = self._locator.locate(procfs, rank, memory, deadline).layouts
        for in_heap, groups in find_objects(procfs, rank, memory, NCCL, layouts):
            if found and not in_heap:
                break  # one thread makes all groups, and so in one arena
            found += groups
        twice = Counter((group.name, group.description) for group in found)
        known = tuple(group for group in found if twice[group.name, group.description] == 1)[:_MOST_GROUPS]
        if not known:
            raise Unavailable(Reason.NOT_FOUND, "no process group of NCCL was found in its memory")
        return self._known.put(key, (now, known))[1]


def _is_there(memory: ProcessMemory, group: GroupObject, rank: Rank) -> bool:
    return read_group(memory, group.address, group.vtable, (group.layout,), rank, NCCL) == group


def _counters(memory: ProcessMemory, group: GroupObject) -> GroupCounters:
    paged, layout = PagedMemory(memory, most_given=_MOST_GIVEN), group.layout
    about = layout["nccl"]
    status_at = group.address + about.offset("pgStatus_")
    if about.fields["pgStatus_"].size == layout["shared_ptr"].size:
        status_at = paged.word(status_at)
    status = read_status(paged, status_at, layout)
    last = Objects(paged, layout).string(status_at + layout["status"].offset("lastEnqueuedWorkName"))
    pending = tuple(_works(paged, group))
    # Counted before the operation is listed: so what is read last covers all that was listed.
    collectives, pairs = (memory.word(group.address + about.offset(name)) for name in ("seqCollective_", "seqP2P_"))
    told = (status.issued or 0, *(work.number for work in pending))
    if max(told) > max(collectives, pairs) or any(w.number > (pairs if w.is_p2p else collectives) for w in pending):
        raise Unreadable(f"the counters of the process group at {group.address:#x} do not fit its operations")
    return GroupCounters(group, collectives, pairs, status, last, pending)


def _works(paged: PagedMemory, group: GroupObject) -> Iterable[PendingWork]:
    """Iterate over the operations that a group has listed, oldest first. Raises Unreadable where any is none."""
    layout = group.layout
    node, items = layout["list_node"], layout["list"]
    head = group.address + layout["nccl"].offset("workMetaList_")
    place = paged.word(head + items.offset("first"))
    walked = _nodes(paged, place, head, node.offset("next"))
    for at in islice(walked, _MOST_WORKS):
        yield _work(paged, at + node.offset("value"), group)


def _nodes(paged: PagedMemory, place: int, end: int, next_at: int) -> Iterable[int]:
    while place != end:
        yield place
        place = paged.word(place + next_at)


def _work(paged: PagedMemory, at: int, group: GroupObject) -> PendingWork:
    layout, objects = group.layout, Objects(paged, group.layout)
    about = layout["nccl_work"]

    def number(name: str, form: str = "<q") -> int:
        data = paged.read(at + about.offset(name), struct.calcsize(form))
        return int(struct.unpack(form, data)[0])

    kind = number("opType_", "<B")
    op = OPERATIONS[kind] if kind < len(OPERATIONS) else f"operation {kind}"
    is_p2p = bool(number("isP2P_", "<B")) if "isP2P_" in about.fields else op in ("send", "recv")
    named = "pgUID_" not in about.fields or objects.string(at + about.offset("pgUID_")) == group.name
    own = named and number("rank_", "<i") == group.place and abs(paged.word(at) - group.vtable) < _NEAR
    issued_ns, sequence = number("workStartTime_") + _AHEAD_NS, number("seq_")
    if not own or sequence <= 0 or not 0 < issued_ns < 1 << 63:
        raise Unreadable(f"what is listed at {at:#x} is no operation of group {group.name[:64]!r}")
    elements = number("numelIn_"), number("numelOut_")
    return PendingWork(sequence, op, is_p2p, *elements, issued_ns, number("opTimeout_"))
