"""What NCCL's RAS says of a job: its processes, its communicators, and how many operations each rank has launched.

RAS is a thread in every process that uses NCCL from 2.24 on; each of them answers for all. Its counts are launches, not
completions, per communicator and from 2.26 on per operation. Sends, receives and what a CUDA graph replays are not
counted. A rank here is a *communicator* rank: whose it is, only host and pid tell.
"""

from array import array
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from shared.ranks import FoldedRanks
from shared.value import Column, Value


class RasStatus(StrEnum):
    """How a rank stands to a communicator, and a process to RAS."""

    NOCOMM = "nocomm"
    """Its process answered, and has no such communicator: not made yet, or destroyed."""
    INIT = "init"
    RUNNING = "running"
    FINALIZE = "finalize"
    ABORT = "abort"
    SILENT = "silent"
    """Its process did not answer RAS in time."""
    DEAD = "dead"
    """RAS has given its process up, after a minute without a connection."""
    UNKNOWN = "unknown"


class Peer(NamedTuple):
    """One process of the job. The host is an address, the pid is the one that the process itself sees."""

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
    """Those that are listed."""


class StatusRanks(NamedTuple):
    """Ranks of one status, or that report one error."""

    word: str
    number: int
    ranks: FoldedRanks = ""


def _column() -> "array[int]":
    return array("q")


class Communicator(Value):
    """One NCCL communicator. Hashes alone are not unique: only both together are, where both are told."""

    hash: str
    secondary_hash: str = ""
    size: int | None = None
    launched: dict[str, tuple[Launched, ...]] = Field(
        default_factory=dict, description="Operation to launches, fewest first; text tells only those that differ."
    )
    standings: tuple[StatusRanks, ...] = ()
    errors: tuple[StatusRanks, ...] = ()
    ranks: Column = Field(default_factory=_column, description="Communicator ranks whose process is reported.")
    peers: Column = Field(default_factory=_column, description="The process of each of `ranks`: an index.")

    @property
    def key(self) -> tuple[str, str]:
        return self.hash, self.secondary_hash

    def of_status(self, *statuses: RasStatus) -> tuple[StatusRanks, ...]:
        """The ranks of these statuses."""
        return tuple(standing for standing in self.standings if standing.word in statuses)


class RasNetwork(Value):
    """What the RAS threads of one job said together at one moment."""

    asked_at_ns: int | None = Field(default=None, description="Unix nanoseconds on the asking node; None for files.")
    told_at: str = Field(default="", description="The report's own time, as it stands there; text has none.")
    nccl_version: str = ""
    peers: tuple[Peer, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    whole: bool = Field(default=False, description="Every process and rank is listed; text lists the odd ones alone.")
    known: int = Field(default=0, description="Communicators that exist; a text report details those in trouble only.")
    timeouts: int = Field(default=0, description="Processes or links that were too slow for RAS.")


class RasLook(Value):
    """What one node's agent has of RAS, and by what the processes there are known to it."""

    addresses: tuple[str, ...] = Field(default=(), description="This node's addresses as its ranks see them.")
    pids: dict[int, int] = Field(
        default_factory=dict, description="A rank's own pid to its pid here, where they differ."
    )
    networks: tuple[RasNetwork, ...] = Field(default=(), description="One for each job that answered.")
