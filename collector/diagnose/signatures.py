"""Step 4 of the verdict: same group, same sequence, different operation.

Which parts of a signature must agree depends on the operation, by the table below; sizes are compared as numbers
of elements, because a library moves elements and not shapes. The majority is right and the minority is at
fault, whether it is behind or ahead; without a majority every side is told and none is convicted. Only the
earliest disagreement counts: what follows it is noise.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import prod

from collector.diagnose.groups import GroupView
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
    cache: dict[tuple[int, int], Facts] = {}
    by_sequence: dict[int, dict[tuple[Facts, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, lane in group.lanes.items():
        trace = traces[rank]
        for sequence, positions in lane.positions.items():
            facts = tuple(_cached(cache, rank, trace, trace.signature[at]) for at in positions)
            by_sequence[sequence][facts].append(rank)
    disputed = [sequence for sequence, sides in by_sequence.items() if len(sides) > 1]
    if not disputed:
        return None
    return _mismatch(group, traces, min(disputed), by_sequence[min(disputed)])


def _cached(cache: dict[tuple[int, int], Facts], rank: int, trace: Trace, index: int) -> Facts:
    key = (rank, index)
    if key not in cache:
        cache[key] = facts_of(trace.signatures[index])
    return cache[key]


def _mismatch(
    group: GroupView, traces: dict[int, Trace], sequence: int, opinions: dict[tuple[Facts, ...], list[int]]
) -> Mismatch:
    sides = sorted((tuple(sorted(ranks)) for ranks in opinions.values()), key=lambda ranks: (-len(ranks), ranks))
    voters = sum(len(ranks) for ranks in sides)
    majority = 2 * len(sides[0]) > voters and len(sides[0]) > 1
    culprits = tuple(sorted(rank for ranks in sides[1:] for rank in ranks)) if majority else ()
    shown = tuple((ranks, _signature_at(group, traces, ranks[0], sequence)) for ranks in sides)
    return Mismatch(group, sequence, shown, culprits)


def _signature_at(group: GroupView, traces: dict[int, Trace], rank: int, sequence: int) -> Signature:
    trace = traces[rank]
    return trace.signatures[trace.signature[group.lanes[rank].positions[sequence][-1]]]
