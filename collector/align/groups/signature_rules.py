"""Which parts of a signature must agree across a group at one sequence, per operation."""

from functools import lru_cache
from math import prod

from shared.wire.trace import Signature

# Parts of a signature that must be equal on all members: i input elements, o output elements, d dtype.
# Rooted operations differ rightly on the root; all_to_all's splits may differ between any two ranks.
_MUST_AGREE = {
    op: parts
    for parts, ops in {
        "iod": "all_reduce all_reduce_coalesced",
        "od": "all_gather all_gather_into_tensor all_gather_coalesced all_gather_into_tensor_coalesced scatter"
        " all_gather_single all_gather_v",  # the last two are torchcomms' names, as below
        "id": "reduce_scatter reduce_scatter_tensor reduce_scatter_coalesced reduce_scatter_tensor_coalesced"
        " broadcast reduce gather reduce_scatter_single reduce_scatter_v"
        " _broadcast_oop _reduce_oop",  # parts of uneven operations: each sends as much as all others expect
        "d": "all_to_all all_to_all_single all_to_all_v_single",
        "": "barrier coalesced",
    }.items()
    for op in ops.split()
}


def is_compared(op: str) -> bool:
    """Is it known which arguments of `op` must agree? Of any other operation the name alone is compared."""
    return op in _MUST_AGREE


_PLACEHOLDER = "Undefined"
"""The dtype of the tensor that a rank without a part in a gather or scatter hands over."""


TOWARDS_ROOT = frozenset({"reduce", "gather"})
ROOTED = TOWARDS_ROOT | {"broadcast", "scatter"}
"""Operations with a root, which no recorder writes down."""
TAKES_ALL = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
NEEDS_ALL = frozenset(op for op in _MUST_AGREE if op.startswith(TAKES_ALL))
"""No member completes one of these before all members have issued it."""


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
