"""Operations in a record, e.g. `nccl:recv 3<-0`: backend, operation, who sends to whom, and what a scatter gives."""

import re
from functools import lru_cache

# nccl:recv 3<-0      gloo:send 1->2
_PEERS = re.compile(r"(?P<op>\w+) (?P<one>\d{1,7})(?P<arrow>->|<-)(?P<other>\d{1,7})")
CANONICAL_OPS = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_base": "all_to_all_single",
    "allgather_coalesced": "all_gather_coalesced",
    "allreduce_coalesced": "all_reduce_coalesced",
    "all_reduce_barrier": "barrier",
}

_BACKENDS = {"nccl2": "nccl", "nccl-lazy": "nccl"}
"""PyTorch's classes for NCCL that have a name of their own, since 2.15; the former one calls itself `nccl`."""


@lru_cache(maxsize=4096)
def parse_operation(profiling_name: str) -> tuple[str, str, int | None, int | None]:
    """Split e.g. `nccl:recv 3<-0` into (backend, canonical op, source group rank, target group rank)."""
    backend, colon, rest = profiling_name.partition(":")
    if not colon:
        backend, rest = "", profiling_name
    backend, peers = _BACKENDS.get(backend, backend), _PEERS.fullmatch(rest)
    if peers is None:
        op = rest.lower().replace(":", "_")
        return backend, CANONICAL_OPS.get(op, op), None, None
    one, other = int(peers["one"]), int(peers["other"])
    source, target = (one, other) if peers["arrow"] == "->" else (other, one)
    return backend, peers["op"].lower(), source, target


def is_handed_out(sizes: tuple[tuple[int, ...], ...]) -> bool:
    """Is that what the root of a scatter hands out, and who is none has not? All others get one tensor.

    NCCL and what is made after it record both sides the other way round: `collective(outputs, inputs, // just to fit
    the collective interface` (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
    """
    return len(sizes) > 1 or sizes == ((0,),)
