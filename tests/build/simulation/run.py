"""A run of a simulated job: what each rank issued, when it started and completed, and where the hosts are stuck."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from tests.build.simulation.program import Call, Kernel, Operation, Program, Work

BEGUN_NS = 1_700_000_000_000_000_000


class Semantics(StrEnum):
    NCCL = "nccl"
    GLOO = "gloo"


@dataclass(frozen=True)
class Machine:
    """How operations behave, apart from what they are."""

    semantics: Semantics
    one_queue: bool = True
    """NCCL: do operations of all groups wait for each other, or of one group only?"""
    eager_sends: bool = False
    """NCCL: does a send complete without its receive, as small ones do?"""


class Host(StrEnum):
    """Where a rank's host ends up."""

    DONE = "done"
    WAITS = "waits"
    STAYS = "stays"
    CRASHED = "crashed"


@dataclass(eq=False)
class Issued:
    """One call on one rank, and its times in nanoseconds; None: not yet."""

    rank: int
    call: Call | Kernel
    issued_ns: int
    takes_ns: int
    started_ns: int | None = None
    completed_ns: int | None = None
    after: "Issued | None" = None
    parts_left: int = 0
    never_starts: bool = False


@dataclass(frozen=True)
class Pause:
    """A host waits: in an operation, or for its device (`call` is None). `until_ns` is None if for ever."""

    from_ns: int
    until_ns: int | None
    call: Operation | None


@dataclass(frozen=True)
class Worked:
    """A host was at work on something else than operations."""

    work: Work
    from_ns: int
    until_ns: int


@dataclass(frozen=True)
class Run:
    """What came of a job. `issued` holds each rank's operations in the order of calls."""

    machine: Machine
    issued: dict[int, list[Issued]]
    hosts: dict[int, Host]
    reached: dict[int, int]
    """The step that each rank's host is at."""
    programs: Mapping[int, Program]
    waiting: dict[int, frozenset[int]]
    """Whom each rank really waits for: those who have not started what it has started."""
    pauses: dict[int, list["Pause"]]
    """When each rank's host waited, and in what."""
    worked: dict[int, list[Worked]]

    @cached_property
    def ended_ns(self) -> int:
        """When the last thing happened."""
        times = (
            t for ops in self.issued.values() for op in ops for t in (op.issued_ns, op.started_ns, op.completed_ns)
        )
        return max((time for time in times if time is not None), default=BEGUN_NS)

    @property
    def hung(self) -> bool:
        return any(host is not Host.DONE for host in self.hosts.values())
