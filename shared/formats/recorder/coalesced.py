"""Batches of a flight record: the parts share the fate of the entry that ends them.

A batch (`_coalescing_manager`, `batch_isend_irecv`, an all_gather or reduce_scatter of uneven sizes) is one piece of
work. PyTorch records its parts without events, so that they stay "scheduled" forever, and then one entry that starts
and completes: `coalesced`, or since 2.8 the name of the operation, `ALLGATHER_coalesced`. All of them carry one pair of
sequence numbers. Source: ProcessGroupNCCL.cpp, `endCoalescing` and the recording of coalesced operations; pull request
150863 for the names. XCCL writes no such entry: there only later operations show that a part is done.
"""

from array import array
from collections.abc import Sequence

from shared.wire.trace import Signature, State

COALESCED = "coalesced"
_PARTS = frozenset({"_broadcast_oop", "_reduce_oop"})
"""Operations that are issued as parts of a batch and in no other way."""


def settle_batches(columns: "dict[str, array[int]]", signatures: Sequence[Signature]) -> None:
    """Give the parts of each batch in `columns`, which is changed, the state of the batch's end.

    A part without an end is as far as the group: a device runs a group's operations one after the other.
    """
    ends = {index for index, signature in enumerate(signatures) if _is_end(signature.op)}
    parts = {index for index, signature in enumerate(signatures) if signature.op in _PARTS}
    if ends:
        _settle_by_ends(columns, ends)
    if parts:
        _settle_by_later(columns, parts)


def _is_end(op: str) -> bool:
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
