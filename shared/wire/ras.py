"""What NCCL RAS reports about a job: its processes, its communicators, and how many operations each rank has launched.

RAS is a thread in every process that uses NCCL 2.24 or later; each of them answers for all. It counts launches, not
completions, per communicator and from 2.26 on per operation. Sends, receives and what a CUDA graph replays are not
counted. A rank here is a *communicator* rank: only host and pid identify its process.
"""

from array import array
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from shared.rank_sets import FoldedRanks
from shared.value import Column, Value


class RasStatus(StrEnum):
    """The state of a rank in a communicator, or of a process in RAS."""

    NOCOMM = "nocomm"
    """Its process answered, but has no such communicator: not created yet, or destroyed."""
    INIT = "init"
    RUNNING = "running"
    FINALIZE = "finalize"
    ABORT = "abort"
    SILENT = "silent"
    """Its process did not answer RAS in time."""
    DEAD = "dead"
    """RAS gave up on its process after a minute without a connection."""
    UNKNOWN = "unknown"


UNANSWERED = (RasStatus.SILENT, RasStatus.DEAD)


class Peer(NamedTuple):
    """One process of the job. The host is an address, the pid is what the process itself sees."""

    host: str
    pid: int
    gpu: str = ""
    status: RasStatus = RasStatus.RUNNING


class Launched(NamedTuple):
    """Ranks that have launched an operation equally often."""

    operations: int
    number: int
    """How many ranks; text reports do not always list them."""
    ranks: FoldedRanks = ""
    """The listed ones."""


class StatusRanks(NamedTuple):
    """Ranks with the same status or error."""

    word: str
    number: int
    ranks: FoldedRanks = ""


def _column() -> "array[int]":
    return array("q")


class Communicator(Value):
    """One NCCL communicator. One hash alone is not unique: both together are, where both are given."""

    hash: str
    secondary_hash: str = ""
    size: int | None = None
    launched: dict[str, tuple[Launched, ...]] = Field(
        default_factory=dict,
        description="Launches by operation, fewest first; text reports list only those that differ.",
    )
    standings: tuple[StatusRanks, ...] = ()
    errors: tuple[StatusRanks, ...] = ()
    ranks: Column = Field(default_factory=_column, description="Communicator ranks whose process is reported.")
    peers: Column = Field(default_factory=_column, description="The process of each of `ranks`: an index.")

    @property
    def key(self) -> tuple[str, str]:
        return self.hash, self.secondary_hash


class RasNetwork(Value):
    """What the RAS threads of one job reported together at one moment."""

    asked_at_ns: int | None = Field(
        default=None, description="Unix nanoseconds on the node that asked; None for files."
    )
    told_at: str = Field(default="", description="The time in the report, as printed there; text reports have none.")
    nccl_version: str = ""
    peers: tuple[Peer, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    whole: bool = Field(
        default=False, description="Every process and rank is listed; text reports list only unusual ones."
    )
    known: int = Field(default=0, description="Number of communicators; a text report details only those in trouble.")
    timeouts: int = Field(default=0, description="Processes or connections that were too slow for RAS.")


class RasLook(Value):
    """What one node's agent read from RAS, and how RAS identifies the processes on this node."""

    addresses: tuple[str, ...] = Field(default=(), description="This node's addresses, as its ranks see them.")
    pids: dict[int, int] = Field(
        default_factory=dict,
        description="From a rank's own pid, in its container, to its pid on the node, where they differ.",
    )
    gone: tuple[tuple[str, int], ...] = Field(
        default=(), description="Address and pid of processes on this node that do not answer RAS, and are no more."
    )
    networks: tuple[RasNetwork, ...] = Field(default=(), description="One for each job that answered.")
