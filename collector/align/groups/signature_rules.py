"""Which parts of a signature must agree across a group at one sequence, per operation."""

from functools import lru_cache
from math import prod

from shared.wire.trace import Signature

# Parts of a signature that must be equal on all members: i input elements, o output elements, d dtype.
# Rooted operations differ rightly on the root; all_to_all's splits may differ between any two ranks.
_MUST_AGREE = {
    "all_reduce": "iod",
    "all_reduce_coalesced": "iod",
    "all_gather": "od",
    "all_gather_into_tensor": "od",
    "all_gather_coalesced": "od",
    "all_gather_into_tensor_coalesced": "od",
    "reduce_scatter": "id",
    "reduce_scatter_tensor": "id",
    "reduce_scatter_coalesced": "id",
    "reduce_scatter_tensor_coalesced": "id",
    "broadcast": "id",
    "reduce": "id",
    "gather": "id",
    "scatter": "od",
    "all_to_all": "d",
    "all_to_all_single": "d",
    "barrier": "",
    "coalesced": "",
    # Parts of uneven all_gathers and reduce_scatters: each sends as much as all others expect.
    "_broadcast_oop": "id",
    "_reduce_oop": "id",
    # torchcomms' names.
    "all_gather_single": "od",
    "all_gather_v": "od",
    "reduce_scatter_single": "id",
    "reduce_scatter_v": "id",
    "all_to_all_v_single": "d",
}


_PLACEHOLDER = "Undefined"
"""The dtype of the tensor that a rank without a part in a gather or scatter hands over."""


ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Operations with a root, which no recorder writes down."""


OTHER_SIDE = {"send": "recv", "recv": "send"}
"""What completes a point-to-point operation."""
UNPAIRED = frozenset({"send", "recv"})
"""Operations of two, whose peers some recorders leave out."""


_GATHERS = frozenset({"all_gather", "all_gather_into_tensor", "all_gather_single"})
_SCATTERS = frozenset({"reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"})


def members_by_sizes(op: str | None, into: int, out: int) -> int | None:
    """How many members a group has whose operation gathers from all, or scatters to all, equal parts.

    `into`, `out`: elements in and out. None: sizes do not tell.
    """
    many, one = (out, into) if op in _GATHERS else (into, out)
    return many // one if op in _GATHERS | _SCATTERS and one > 0 and many % one == 0 else None


Facts = tuple[str, tuple[int, ...] | None, tuple[int, ...] | None, tuple[str, ...] | None]
"""Operation, input elements, output elements, dtypes; None for a part that need not agree."""


@lru_cache(maxsize=4096)
def facts_of(signature: Signature) -> Facts:
    """Reduce a signature to what must be equal across the group.

    A send and a receive that count as collectives, as torchcomms records them, are one operation: neither has a peer.
    """
    parts = _MUST_AGREE.get(signature.op, "")
    return (
        "send/recv" if signature.op in UNPAIRED and signature.source is None else signature.op,
        _elements(signature.input_sizes) if "i" in parts else None,
        _elements(signature.output_sizes) if "o" in parts else None,
        _dtypes(signature, parts) if "d" in parts else None,
    )


def _dtypes(signature: Signature, parts: str) -> tuple[str, ...]:
    """Each type once: lists of tensors differ in length between a root and the others."""
    first, second = (
        tuple(dtype for dtype in dtypes if dtype != _PLACEHOLDER)
        for dtypes in (signature.input_dtypes, signature.output_dtypes)
    )
    told = (
        (*first, *second) if "i" in parts and "o" in parts else (second or first) if "o" in parts else first or second
    )
    return tuple(dict.fromkeys(told))


def _elements(sizes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(prod(size) for size in sizes)
