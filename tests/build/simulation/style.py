"""How a simulated job is written, whatever its topology."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How a job is written, whatever its topology."""

    steps: int
    gloo: bool
    names: str = "counted"
    """`counted` through the job, or `repeated`: every rank counts its own groups, so that names recur."""
    described: bool = True
    synchronises_each: int = 1
    rooted: str | None = None
    """A rooted operation on the world in each step: broadcast, gather or scatter."""
    coalesced: str | None = None
    """`fast`: gradients go as one `all_reduce_coalesced`; `slow`: as a batch of collectives."""
    batched_p2p: bool = True
    lists: bool = False
    """all_to_all on lists of tensors, rather than on one tensor with splits."""
    load_seconds: float = 0.1
    """What a rank's host does on its own in each step, about."""
