"""Batches of a flight record: the parts share the fate of the entry that ends them.

A batch (`_coalescing_manager`, `batch_isend_irecv`) is one piece of work. PyTorch records its parts without events, so
that they stay "scheduled" for ever, and then one entry named `coalesced` that starts and completes. All of them carry
one pair of sequence numbers. Source: ProcessGroupNCCL.cpp, `endCoalescing` and the recording of coalesced operations.
"""

from array import array
from collections.abc import Sequence

from shared.trace import Signature

COALESCED = "coalesced"


def settle_batches(columns: "dict[str, array[int]]", signatures: Sequence[Signature]) -> None:
    """Give the parts of each batch in `columns`, which is changed, the state of the batch's end."""
    ends = {index for index, signature in enumerate(signatures) if signature.op == COALESCED}
    if not ends:
        return
    signature, state = columns["signature"], columns["state"]
    identity = tuple(zip(columns["group"], columns["collective_seq"], columns["p2p_seq"], strict=True))
    for end in (at for at, index in enumerate(signature) if index in ends):
        part = end - 1
        while part >= 0 and signature[part] not in ends and identity[part] == identity[end]:
            state[part] = max(state[part], state[end])
            part -= 1
