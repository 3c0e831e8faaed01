"""NCCL's call lines of all ranks, lined up by communicator and opCount: no recorder is needed.

1. Processes get their global rank from the file, from the line, or from their place in the world's communicator.
2. At one opCount the calls must be equal on all ranks. Of the first that a log holds, some may be missing.
3. The last opCount is how far a rank has come, where all stand at one of two: these lines show calls, not waits.

Not lined up: communicators that carry sends and receives (every rank counts its own), those without numbers, and those
without an identity, unless as many ranks as such a one has each have no other of its size. A log that is written in
blocks, as NCCL writes a redirected standard output, lacks its last lines: nobody is behind by such a log. An
`NCCL_DEBUG_FILE` is written line by line.
"""

from collections import defaultdict
from dataclasses import dataclass

from collector.align.groups.table import Call, GroupView, Lane, Witness
from collector.align.logs.attributed_lines import Statements
from shared.isolation import costs_itself
from shared.wire.nccl_calls import P2P, LoggedCall, LoggedCommunicator

_OPS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather_into_tensor",
    "ReduceScatter": "reduce_scatter_tensor",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AllToAll": "all_to_all",
}
_DTYPES = "Char Byte Int UInt Long ULong Half Float Double BFloat16 Float8_e4m3 Float8_e5m2".split()
"""By NCCL's numbers (nccl.h), in the flight recorder's spelling."""

_Calls = dict[int, tuple[LoggedCall, ...]]


@dataclass(frozen=True)
class _Calling:
    """One rank's calls on one communicator, by opCount. Of the first number, calls may be missing."""

    rank: int
    calls: _Calls
    cut: bool

    @property
    def last(self) -> int:
        return max(self.calls)


@costs_itself(lambda statements, world_size: [])
def tables_by_calls(statements: Statements, world_size: int | None) -> list[GroupView]:
    """Return one table for each communicator that can be lined up."""
    return [_table(*found) for found in _lined_up(statements.communicators, world_size)]


def ranks_of_processes(
    communicators: tuple[LoggedCommunicator, ...], world_size: int | None
) -> dict[tuple[str, int], int]:
    """1. (host, pid) -> global rank. A place counts as global only in the one communicator of the whole world."""
    told = {(c.host, c.pid): c.rank for c in communicators if c.rank is not None}
    size = max((c.size for c in communicators), default=0)
    worlds = {c.identity for c in communicators if c.size == size and c.identity}
    if len(worlds) == 1 and size >= (world_size or 0):
        for each in communicators:
            if each.identity in worlds and each.comm_rank is not None:
                told.setdefault((each.host, each.pid), min(each.comm_rank, size))
    return told


def _lined_up(
    communicators: tuple[LoggedCommunicator, ...], world_size: int | None
) -> list[tuple[str, int, list[_Calling]]]:
    ranks = ranks_of_processes(communicators, world_size)
    by_identity: dict[tuple[str, int], dict[int, LoggedCommunicator]] = defaultdict(dict)
    for each in communicators:
        rank = ranks.get((each.host, each.pid))
        if each.identity and rank is not None:
            by_identity[each.identity, each.size][rank] = each
    by_identity |= _nameless(communicators, ranks)
    found = []
    for (identity, size), members in sorted(by_identity.items()):
        calls = [call for each in members.values() for call in each.calls]
        comparable = all(each.counted for each in members.values()) and not any(c.op in P2P for c in calls)
        lanes = [_lane(rank, each) for rank, each in sorted(members.items()) if each.calls]
        if comparable and len(lanes) > 1:
            found.append((identity, size, lanes))
    return found


def _nameless(
    communicators: tuple[LoggedCommunicator, ...], ranks: dict[tuple[str, int], int]
) -> dict[tuple[str, int], dict[int, LoggedCommunicator]]:
    """Communicators without an identity: those of one size are one where as many ranks have one each."""
    by_size: dict[int, list[tuple[int, LoggedCommunicator]]] = defaultdict(list)
    for each in communicators:
        rank = ranks.get((each.host, each.pid))
        if rank is not None and each.calls:
            by_size[each.size].append((rank, each))
    return {
        (f"of {size} ranks", size): dict(members)
        for size, members in by_size.items()
        if len(members) == size == len(dict(members)) and not any(each.identity for _, each in members)
    }


def _lane(rank: int, communicator: LoggedCommunicator) -> _Calling:
    calls: dict[int, list[LoggedCall]] = defaultdict(list)
    for call in communicator.calls:
        calls[call.number].append(call)
    return _Calling(rank, {number: tuple(each) for number, each in calls.items()}, communicator.cut)


def _table(identity: str, size: int, lanes: list[_Calling]) -> GroupView:
    """2, 3. What each rank called, and how far it has come."""
    comparable = {lane.rank: {n: c for n, c in lane.calls.items() if n != min(lane.calls) or n == 0} for lane in lanes}
    longest: _Calls = {}
    for calls in comparable.values():
        longest = {**longest, **{n: c for n, c in calls.items() if len(c) > len(longest.get(n, ()))}}
    ends = not any(lane.cut for lane in lanes) and len({lane.last for lane in lanes}) < 3
    return GroupView(
        witness=Witness.CALLS,
        name=identity,
        description="NCCL communicator",
        title=f"NCCL communicator {identity}",
        lanes={
            lane.rank: Lane(
                issued=lane.last if ends else None,
                calls={n: _call(c, longest[n]) for n, c in comparable[lane.rank].items()},
            )
            for lane in lanes
        },
        size=size,
        tells_waits=False,
    )


def _call(calls: tuple[LoggedCall, ...], longest: tuple[LoggedCall, ...]) -> Call:
    """Calls of one group share an opCount: a log that ends within them holds the first few, and does not differ."""
    first = calls[0]
    return Call(
        longest if calls == longest[: len(calls)] else calls,
        _in_words(calls),
        _OPS.get(first.op, first.op.lower()),
        str(first.elements) + _rooted(first),
        _dtype(first),
    )


def _in_words(calls: tuple[LoggedCall, ...]) -> str:
    told = [f"{call.op} of {call.elements} {_dtype(call)}" + _rooted(call) for call in calls[:3]]
    return ", ".join(told) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")


def _dtype(call: LoggedCall) -> str:
    return _DTYPES[call.datatype] if 0 <= call.datatype < len(_DTYPES) else f"datatype {call.datatype}"


def _rooted(call: LoggedCall) -> str:
    return f" with root {call.root}" if call.op in ("Broadcast", "Reduce") else ""
