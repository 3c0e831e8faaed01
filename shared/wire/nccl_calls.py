"""Calls from NCCL's log lines: communicators and the calls that each process made on them."""

from typing import NamedTuple

from pydantic import Field

from shared.value import Value

MOST_CALLS = 256
"""The last ones of each communicator."""

MOST_COMMUNICATORS = 512

P2P = frozenset({"Send", "Recv"})


class LoggedCall(NamedTuple):
    """One call. The fields after `number` must agree on all ranks of the communicator."""

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
    pid: int = Field(description="As the process itself sees it: in a container, its pid there.")
    identity: str = Field(default="", description="Equal on all its ranks; empty if no line gives it.")
    comm_rank: int | None = Field(default=None, description="The process's rank in it, if an Init line gives it.")
    rank: int | None = Field(default=None, description="Global rank of the process, if the line or file gives it.")
    size: int
    calls: tuple[LoggedCall, ...] = Field(default=(), description="The last 256, oldest first.")
    counted: bool = Field(default=True, description="Whether calls are numbered consistently on all ranks.")
    cut: bool = Field(default=False, description="The last calls may be missing: the log is buffered or garbled.")
