"""NCCL's own log lines of calls, as values: communicators and the calls that each process made on them."""

from typing import NamedTuple

from pydantic import Field

from shared.value import Value

MOST_CALLS = 256
"""Of each communicator, the last."""


MOST_COMMUNICATORS = 512


P2P = frozenset({"Send", "Recv"})


class LoggedCall(NamedTuple):
    """One call. What stands behind `number` must agree on all ranks of the communicator."""

    number: int
    op: str
    """NCCL's word, e.g. `AllReduce`."""
    elements: int
    datatype: int
    reduction: int
    root: int


class LoggedCommunicator(Value):
    """One communicator as one process logs it."""

    host: str
    pid: int = Field(description="As the process itself sees it: in a container, the container's number.")
    identity: str = Field(default="", description="The same on all its ranks; empty where no line tells.")
    comm_rank: int | None = Field(default=None, description="The process's rank in it, where an Init line tells.")
    rank: int | None = Field(default=None, description="Global rank of the process, where the line or file tells.")
    size: int
    calls: tuple[LoggedCall, ...] = Field(default=(), description="The last 256, oldest first.")
    counted: bool = Field(default=True, description="Whether calls have numbers that mean the same on all ranks.")
    cut: bool = Field(
        default=False, description="The last calls may be lost: the log is written in blocks, or mangled."
    )
