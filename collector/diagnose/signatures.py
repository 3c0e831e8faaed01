"""Step 4 of the verdict: same group, same sequence, different operation.

Which parts of a signature must agree depends on the operation, by the table below; sizes are compared as numbers
of elements, because a library moves elements and not shapes. The majority is right and the minority is at
fault, whether it is behind or ahead; without a majority every side is told and none is convicted. Only the
earliest disagreement counts: what follows it is noise.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod
from operator import itemgetter

from collector.diagnose.groups import GroupView
from collector.diagnose.lanes import Lane
from shared.trace import Signature, Trace

# Parts of a signature that must be equal on all members: i input elements, o output elements, d dtype.
# Rooted operations differ rightly on the root; all_to_all's splits may differ between any two ranks.
_MUST_AGREE = {
    "all_reduce": "id",
    "all_reduce_coalesced": "id",
    "all_gather": "od",
    "all_gather_into_tensor": "od",
    "all_gather_coalesced": "od",
    "reduce_scatter": "id",
    "reduce_scatter_tensor": "id",
    "broadcast": "id",
    "reduce": "id",
    "gather": "id",
    "scatter": "o",
    "barrier": "",
}

ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Operations with a root, which no recorder writes down."""

Facts = tuple[str, tuple[int, ...] | None, tuple[int, ...] | None, tuple[str, ...] | None]
"""Operation, input elements, output elements, dtypes; None for a part that need not agree."""


@dataclass(frozen=True)
class Mismatch:
    """The earliest disagreement of one group. `culprits` is empty where there is no majority."""

    group: GroupView
    sequence: int
    sides: tuple[tuple[tuple[int, ...], Signature], ...]
    """(ranks, one of their signatures), the largest side first."""
    culprits: tuple[int, ...]


def facts_of(signature: Signature) -> Facts:
    """Reduce a signature to what must be equal across the group."""
    parts = _MUST_AGREE.get(signature.op, "")
    return (
        signature.op,
        _elements(signature.input_sizes) if "i" in parts else None,
        _elements(signature.output_sizes) if "o" in parts else None,
        (signature.input_dtypes or signature.output_dtypes) if "d" in parts else None,
    )


def _elements(sizes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(prod(size) for size in sizes)


def earliest_mismatch(group: GroupView, traces: dict[int, Trace]) -> Mismatch | None:
    """Return the first sequence at which two members of `group` issued different operations, or None.

    Only sequences that a trace still holds are compared: what a ring buffer has overwritten is unknown.
    """
    ids: dict[Facts, int] = {}
    told = {rank: _facts_in_order(lane, traces[rank], ids) for rank, lane in group.lanes.items()}
    if _all_agree(group, told):
        return None
    by_sequence: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, facts in told.items():
        for sequence, each in _by_sequence(group.lanes[rank], facts):
            by_sequence[sequence][each].append(rank)
    disputed = [sequence for sequence, sides in by_sequence.items() if len(sides) > 1]
    if not disputed:
        return None
    return _mismatch(group, traces, min(disputed), by_sequence[min(disputed)])


def _facts_in_order(lane: Lane, trace: Trace, ids: dict[Facts, int]) -> tuple[int, ...]:
    """What the lane's records must agree on, as small numbers that mean the same on every rank."""
    numbers = [ids.setdefault(facts_of(signature), len(ids)) for signature in trace.signatures]
    return tuple(map(numbers.__getitem__, map(trace.signature.__getitem__, lane.positions)))


def _all_agree(group: GroupView, told: dict[int, tuple[int, ...]]) -> bool:
    """The common case, told without looking at any record: gapless lanes that equal the longest where they overlap."""
    if not all(lane.is_gapless or not lane.sequences for lane in group.lanes.values()):
        return False
    longest = max(told, key=lambda rank: (len(told[rank]), rank), default=None)
    if longest is None:
        return True
    base, reference = group.lanes[longest].first_kept, told[longest]
    for rank, facts in told.items():
        shift = group.lanes[rank].first_kept - base
        mine, theirs = facts[max(0, -shift) :], reference[max(0, shift) :]
        common = min(len(mine), len(theirs))
        if common < len(facts) or mine[:common] != theirs[:common]:
            return False
    return True


def _by_sequence(lane: Lane, facts: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    for sequence, rows in groupby(zip(lane.sequences, facts, strict=True), key=itemgetter(0)):
        yield sequence, tuple(fact for _, fact in rows)


def _mismatch(
    group: GroupView, traces: dict[int, Trace], sequence: int, opinions: dict[tuple[int, ...], list[int]]
) -> Mismatch:
    sides = sorted((tuple(sorted(ranks)) for ranks in opinions.values()), key=lambda ranks: (-len(ranks), ranks))
    voters = sum(len(ranks) for ranks in sides)
    majority = 2 * len(sides[0]) > voters and len(sides[0]) > 1
    culprits = tuple(sorted(rank for ranks in sides[1:] for rank in ranks)) if majority else ()
    shown = tuple((ranks, _signature_at(group, traces, ranks[0], sequence)) for ranks in sides)
    return Mismatch(group, sequence, shown, culprits)


def _signature_at(group: GroupView, traces: dict[int, Trace], rank: int, sequence: int) -> Signature:
    trace = traces[rank]
    return trace.signatures[trace.signature[group.lanes[rank].at(sequence)[-1]]]
