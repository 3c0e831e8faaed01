"""Batches of a flight record: the parts share the fate of the entry that ends them.

A batch (`_coalescing_manager`, `batch_isend_irecv`, an all_gather or reduce_scatter of uneven sizes) is one piece of
work. PyTorch records its parts without events, so that they stay "scheduled" forever, and then one entry that starts
and completes: `coalesced`, or since 2.8 the name of the operation, `ALLGATHER_coalesced`. All of them carry one pair of
sequence numbers. Source: ProcessGroupNCCL.cpp, `endCoalescing` and the recording of coalesced operations; pull request
150863 for the names. XCCL writes no such entry: there only later operations show that a part is done, and of the sends
and receives of a batch nothing does. They are taken as done, or each healthy rank would wait in them for ever.
"""

from array import array
from collections.abc import Sequence
from itertools import pairwise

from shared.wire.trace import Signature, State

COALESCED = "coalesced"
_PARTS = frozenset({"_broadcast_oop", "_reduce_oop"})
"""Operations that are issued as parts of a batch and in no other way."""
_PAIRED = frozenset({"send", "recv"})


def settle_batches(columns: "dict[str, array[int]]", signatures: Sequence[Signature]) -> None:
    """Give the parts of each batch in `columns`, which is changed, the state of the batch's end.

    A part without an end is as far as the group: a device runs a group's operations one after the other.
    """
    ends = {index for index, signature in enumerate(signatures) if is_end(signature.op)}
    parts = {index for index, signature in enumerate(signatures) if signature.op in _PARTS}
    if ends:
        _settle_by_ends(columns, ends)
    if parts:
        _settle_by_later(columns, parts)
    pairs = {at for at, signature in enumerate(signatures) if signature.backend == "xccl" and signature.op in _PAIRED}
    if pairs and not ends:
        _settle_pairs(columns, pairs)


def is_end(op: str) -> bool:
    """Is it the entry that ends a batch?"""
    return op == COALESCED or op.endswith("_coalesced")


def _settle_by_ends(columns: "dict[str, array[int]]", ends: set[int]) -> None:
    signature, state = columns["signature"], columns["state"]
    identity = tuple(zip(columns["group"], columns["collective_seq"], columns["p2p_seq"], strict=True))
    open_parts: dict[int, list[int]] = {}
    for at, group in enumerate(columns["group"]):  # another thread may issue to another group in between
        parts = open_parts.setdefault(group, [])
        if parts and identity[parts[-1]] != identity[at]:
            parts.clear()
        if signature[at] not in ends:
            parts.append(at)
            continue
        for part in parts:
            state[part] = max(state[part], state[at])
        parts.clear()


def _settle_by_later(columns: "dict[str, array[int]]", parts: set[int]) -> None:
    signature, state, sequence = columns["signature"], columns["state"], columns["collective_seq"]
    completed: dict[int, int] = {}
    for at in range(len(state) - 1, -1, -1):
        group = columns["group"][at]
        if state[at] == State.COMPLETED:
            completed[group] = max(completed.get(group, 0), sequence[at])
        elif signature[at] in parts and sequence[at] < completed.get(group, 0):
            state[at] = State.COMPLETED


def _settle_pairs(columns: "dict[str, array[int]]", pairs: set[int]) -> None:
    """Take the sends and receives of batches without an end as done: those that share their numbers with a neighbour.

    A batch may have one part alone. Where there are batches, what never completes in a group is such a one.
    """
    signature, state = columns["signature"], columns["state"]
    identity = tuple(zip(columns["group"], columns["collective_seq"], columns["p2p_seq"], strict=True))
    mine = [at for at in range(len(state)) if signature[at] in pairs]
    batched = {each for a, b in pairwise(mine) if identity[a] == identity[b] for each in (a, b)}
    single = {columns["group"][at] for at in mine if state[at] == State.COMPLETED and at not in batched}
    groups = {columns["group"][at] for at in batched}
    for at in mine:
        if at in batched or (columns["group"][at] in groups and columns["group"][at] not in single):
            state[at] = State.COMPLETED
