"""NCCL's call lines of all ranks, lined up by communicator and opCount: no recorder is needed.

1. Processes get their global rank from the file, from the line, or from their place in the world's communicator.
2. At one opCount the calls must be equal on all ranks: the earliest difference counts, and the minority is odd.
3. A rank whose last opCount lies below that of all others has not called what they have called. It may still wait for
   an earlier one, so it is named only if the others stand at one same call and its own log does not say that it waits.

Not lined up: communicators that carry sends and receives (every rank counts its own), those without numbers, and those
without an identity, unless as many ranks as such a one has each have no other of its size. A log that is written in
blocks, as NCCL writes a redirected standard output, lacks its last lines: nobody is behind by such a log. An
`NCCL_DEBUG_FILE` is written line by line.
"""

from collections import defaultdict
from dataclasses import dataclass

from collector.align.logs.attributed_lines import Statements
from collector.judge.logs.vote import Opinion, Witness
from shared.answer.diagnosis import Evidence, GroupRef, SequenceEvidence, Side, SignatureEvidence
from shared.answer.words import Cause, Kind
from shared.rank_sets import fold, ranks_in_words
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
class _Lane:
    """One rank's calls on one communicator, by opCount. Of the first number, calls may be missing."""

    rank: int
    calls: _Calls
    cut: bool

    @property
    def last(self) -> int:
        return max(self.calls)


def opinions_by_calls(statements: Statements, world_size: int | None) -> list[Opinion]:
    """Return what NCCL's call lines say of each communicator that can be lined up."""
    opinions = []
    for identity, size, lanes in _lined_up(statements.communicators, world_size):
        opinion = _mismatch(identity, lanes) or _behind(identity, size, lanes, statements)
        if opinion is not None:
            opinions.append(opinion)
    return opinions


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
) -> list[tuple[str, int, list[_Lane]]]:
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


def _lane(rank: int, communicator: LoggedCommunicator) -> _Lane:
    calls: dict[int, list[LoggedCall]] = defaultdict(list)
    for call in communicator.calls:
        calls[call.number].append(call)
    return _Lane(rank, {number: tuple(each) for number, each in calls.items()}, communicator.cut)


def _mismatch(identity: str, lanes: list[_Lane]) -> Opinion | None:
    """2. The earliest opCount at which two ranks called something else; the first of a cut log may be a part."""
    sides: dict[int, dict[tuple[LoggedCall, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane in lanes:
        partial = min(lane.calls)
        for number, calls in lane.calls.items():
            if number != partial or number == 0:
                sides[number][calls].append(lane.rank)
    disputed = [number for number, opinions in sides.items() if _differ(list(opinions))]
    if not disputed:
        return None
    number = min(disputed)
    ordered = sorted(sides[number].items(), key=lambda side: (-len(side[1]), side[1]))
    voters = sum(len(ranks) for _, ranks in ordered)
    decided = len(ordered[0][1]) > 1 and 2 * len(ordered[0][1]) > voters
    culprits = tuple(sorted(rank for _, ranks in ordered[1:] for rank in ranks)) if decided else ()
    ranks = sorted(rank for _, side in ordered for rank in side)
    told = "; ".join(f"{ranks_in_words(side)}: {_in_words(calls)}" for calls, side in ordered)
    group = GroupRef(name=identity, description="NCCL communicator", ranks=fold(ranks))
    where = f"opCount {number:x} of NCCL communicator {identity}"
    said = f"the ranks called different operations at {where}: {told}"
    if culprits:
        odd, most = _in_words(ordered[1][0]), _in_words(ordered[0][0])
        said = f"{ranks_in_words(culprits)} called {odd} where {ranks_in_words(ordered[0][1])} called {most} at {where}"
    return Opinion(
        witness=Witness.CALLS,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=culprits,
        victims=tuple(rank for rank in ranks if rank not in culprits),
        said=said,
        evidence=(
            SignatureEvidence(
                ranks=fold(ranks),
                text=f"according to NCCL's log lines, the calls at {where} differ: {told}",
                group=group,
                sequence=number,
                sides=tuple(_side(calls, side) for calls, side in ordered),
            ),
        ),
        firm=decided,
        cause=Cause.USER_CODE,
        op=_op(ordered[0][0][0]),
        ref=group,
    )


def _differ(opinions: list[tuple[LoggedCall, ...]]) -> bool:
    """Calls of one group share an opCount: a log that ends within them holds the first few, and does not differ."""
    longest = max(opinions, key=len)
    return any(calls != longest[: len(calls)] for calls in opinions)


def _op(call: LoggedCall) -> str:
    return _OPS.get(call.op, call.op.lower())


def _in_words(calls: tuple[LoggedCall, ...]) -> str:
    told = [f"{call.op} of {call.elements} {_dtype(call)}" + _rooted(call) for call in calls[:3]]
    return ", ".join(told) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")


def _dtype(call: LoggedCall) -> str:
    return _DTYPES[call.datatype] if 0 <= call.datatype < len(_DTYPES) else f"datatype {call.datatype}"


def _rooted(call: LoggedCall) -> str:
    return f" with root {call.root}" if call.op in ("Broadcast", "Reduce") else ""


def _side(calls: tuple[LoggedCall, ...], ranks: list[int]) -> Side:
    first = calls[0]
    return Side(ranks=fold(ranks), op=_op(first), sizes=str(first.elements) + _rooted(first), dtypes=_dtype(first))


def _behind(identity: str, size: int, lanes: list[_Lane], statements: Statements) -> Opinion | None:
    """3. A few who have not called what all others have called last."""
    by_last: dict[int, list[int]] = defaultdict(list)
    for lane in lanes:
        by_last[lane.last].append(lane.rank)
    top = max(by_last)
    ahead = by_last[top]
    behind = sorted(rank for last, ranks in by_last.items() if last != top for rank in ranks)
    if not behind or any(lane.cut for lane in lanes) or len(by_last) > 2:
        return None
    if len(ahead) < 2 or 2 * len(ahead) <= size or set(behind) & statements.waited:
        return None
    group = GroupRef(name=identity, description="NCCL communicator", ranks=fold([*ahead, *behind]))
    last = min(by_last)
    calls = next(lane for lane in lanes if lane.last == top).calls[top]
    return Opinion(
        witness=Witness.CALLS,
        kind=Kind.RANK_NOT_JOINED,
        culprits=tuple(behind),
        victims=tuple(sorted(ahead)),
        said=(
            f"{ranks_in_words(behind)} last called NCCL at opCount {last:x}, {ranks_in_words(sorted(ahead))} at "
            f"{top:x} ({_in_words(calls)}) of communicator {identity}"
        ),
        evidence=_marks(group, top, by_last, calls),
        op=_op(calls[0]),
        ref=group,
        remarks=("it may also still wait for an earlier operation; these lines show calls, not completions",),
    )


def _marks(group: GroupRef, top: int, by_last: dict[int, list[int]], calls: tuple[LoggedCall, ...]) -> tuple[Evidence]:
    told = "; ".join(f"{fold(ranks)} at {last:x}" for last, ranks in sorted(by_last.items()))
    behind = sorted(rank for last, ranks in by_last.items() if last != top for rank in ranks)
    return (
        SequenceEvidence(
            ranks=group.ranks,
            text=f"last opCount logged on NCCL communicator {group.name}: {told}; the last call is {_in_words(calls)}",
            group=group,
            sequence=top,
            issued={str(last): fold(ranks) for last, ranks in sorted(by_last.items())},
            waiting=fold(by_last[top]),
            absent=fold(behind),
        ),
    )
