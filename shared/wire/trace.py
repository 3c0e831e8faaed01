"""One rank's flight record in columns: which operations it issued on which groups, and how far they got.

A trace holds tables (groups, signatures, call sites) and one column per field of a record; a `Record` is
made on demand. What a dump does not say is unknown in the trace (`members is None`, `marks == ()`), never guessed.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum, StrEnum
from itertools import count, takewhile
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from shared.missing import Missing
from shared.rank_sets import FoldedRanks
from shared.value import Column, Value, is_within
from shared.wire.stacks import Frame


class State(IntEnum):
    """How far an operation is, as far as the recorder knows."""

    ISSUED = 0
    """The rank called it. On the device it may not have started."""
    STARTED = 1
    """Its kernel is running: everything queued before it on that stream is done."""
    COMPLETED = 2


class Origin(StrEnum):
    """Where a record comes from. Memory and the worker server tell the same thing."""

    MEMORY = "memory"
    """Copied from the rank's memory, which need not answer."""
    WORKER_SERVER = "worker_server"
    """Asked of torch's worker server inside the rank."""
    DEBUG_SERVER = "debug_server"
    """Asked of `torch.distributed.debug`."""
    DUMP_FILE = "dump_file"
    PROCESS_GROUPS = "process_groups"
    """No record: what is pending, and how far each group is, by NCCL's process groups in the rank's memory."""


class Group(Value):
    """A process group as one rank knows it. Names repeat across ranks with different members; that is normal."""

    name: str
    description: str = ""
    members: FoldedRanks | None = Field(
        default=None,
        description="Global ranks; `order` is given if group ranks do not ascend with them. None: not in the dump.",
    )
    order: tuple[int, ...] | None = Field(
        default=None, description="Global ranks by group rank, only if they are not in ascending order."
    )
    timeout_ms: int | None = Field(default=None, description="Timeout of its operations, if known.")


class Signature(NamedTuple):
    """What must agree across a group at one sequence number. Sizes and dtypes are per tensor."""

    op: str
    """Canonical operation, e.g. `all_reduce`, `all_gather`, `send`, `recv`, `coalesced`."""
    backend: str
    input_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    source: int | None = None
    """Sender's *group* rank, for point-to-point operations."""
    target: int | None = None
    """Receiver's *group* rank, for point-to-point operations."""


class Mark(Value):
    """The highest collective sequence numbers of one group on one rank, from the recorder's own status."""

    group: int = Field(description="Index into the trace's group table.")
    issued: int | None = None
    started: int | None = None
    completed: int | None = None


_END_NS = 1 << 63


class LastIssued(Value):
    """What a rank issued last in one process group, and how far that is."""

    group: str = Field(description="The name of the process group.")
    description: str = ""
    op: str = Field(description="The operation, e.g. `all_reduce`.")
    sequence: int | None = Field(
        default=None, description="Its number in the group; None where only point-to-point operations were issued."
    )
    completed: int | None = Field(default=None, description="The last collective that was completed, if known.")
    issued_at_ns: int = Field(lt=_END_NS, ge=0, description="When it was issued, Unix nanoseconds on the node.")
    since_ns: int = Field(lt=_END_NS, ge=0, description="Since when the group has been seen there, Unix nanoseconds.")


class Marks(Value):
    """How far the process groups of a rank were when its agent last read its memory."""

    read_at_ns: int = Field(lt=_END_NS, ge=0, description="When that was, Unix nanoseconds on the node.")
    groups: tuple[LastIssued, ...] = Field(default=(), description="Newest first; at most sixteen.")
    longest_pause_seconds: float | None = Field(
        default=None, ge=0, description="Between two of its steps in the last ten minutes; None: too few were seen."
    )


class Record(NamedTuple):
    """One operation, made on demand from the columns. Times are Unix nanoseconds; 0: unknown."""

    position: int
    group: Group
    signature: Signature
    collective_seq: int
    p2p_seq: int
    op_id: int
    is_p2p: bool
    state: State
    created_ns: int
    started_ns: int
    completed_ns: int
    call_site: tuple[Frame, ...]
    """Python frames at the time of the call, outermost first; empty if the dump has none."""


def _column() -> "array[int]":
    return array("q")


class Trace(Value):
    """The flight record of one rank: oldest record first, all columns equally long."""

    version: str = Field(default="", description="Version of the dump's format as given there, e.g. `2.10`.")
    library: str = Field(default="", description="Version of the communication library, if given.")
    origin: tuple[Origin, ...] = Field(default=(), description="Where the record was read; empty if not noted.")
    contradiction: str = Field(default="", description="How two origins of the record contradict each other, if so.")
    members_missing: Missing | None = Field(
        default=None,
        description="Why it does not tell the members of some of its groups, if they were not read in time.",
    )
    active_only: bool = Field(default=False, description="Does the source leave out finished operations?")
    truncated: bool = Field(default=False, description="Were older records overwritten or cut off?")
    on_new_thread: tuple[int, ...] = Field(
        default=(),
        description="Indices of the groups whose oldest unfinished operation comes from a thread that had issued none "
        "there before, if the dump tells threads.",
    )
    whole_from: int = Field(
        default=0,
        description="Position from which no record is left out. Before it, records of busy groups may be missing "
        "between those of quiet groups.",
    )
    groups: tuple[Group, ...] = ()
    signatures: tuple[Signature, ...] = ()
    call_sites: tuple[tuple[Frame, ...], ...] = ((),)
    marks: tuple[Mark, ...] = ()
    group: Column = Field(default_factory=_column)
    signature: Column = Field(default_factory=_column)
    call_site: Column = Field(default_factory=_column)
    collective_seq: Column = Field(default_factory=_column)
    p2p_seq: Column = Field(default_factory=_column)
    op_id: Column = Field(default_factory=_column)
    is_p2p: Column = Field(default_factory=_column)
    state: Column = Field(default_factory=_column)
    created_ns: Column = Field(default_factory=_column)
    started_ns: Column = Field(default_factory=_column)
    completed_ns: Column = Field(default_factory=_column)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse columns of unequal length, or that point outside their tables: the sender may be hostile."""
        if len({len(column) for column in self.columns().values()}) > 1:
            raise ValueError("the columns are not equally long")
        tables = ((self.group, self.groups), (self.signature, self.signatures), (self.call_site, self.call_sites))
        if not all(is_within(column, len(table)) for column, table in (*tables, (self.state, tuple(State)))):
            raise ValueError("a column points outside its table")
        if not is_within([mark.group for mark in self.marks], len(self.groups)):
            raise ValueError("a mark belongs to no group")
        return self

    def __len__(self) -> int:
        return len(self.group)

    @property
    def is_recorded(self) -> bool:
        """Is it a flight record? Else it holds what is pending and how far each group is, and no more."""
        return Origin.PROCESS_GROUPS not in self.origin

    def record(self, position: int) -> Record:
        """Return the record at `position` (0 is the oldest kept)."""
        return Record(
            position=position,
            group=self.groups[self.group[position]],
            signature=self.signatures[self.signature[position]],
            collective_seq=self.collective_seq[position],
            p2p_seq=self.p2p_seq[position],
            op_id=self.op_id[position],
            is_p2p=bool(self.is_p2p[position]),
            state=State(self.state[position]),
            created_ns=self.created_ns[position],
            started_ns=self.started_ns[position],
            completed_ns=self.completed_ns[position],
            call_site=self.call_sites[self.call_site[position]],
        )

    def records(self) -> Iterator[Record]:
        """Iterate over all records, oldest first."""
        return (self.record(position) for position in range(len(self)))

    def windowed(self, last: int) -> "Trace":
        """Return this trace cut to the `last` records of each group and lane, plus all that are not completed."""
        kept = self._kept(last)
        if len(kept) == len(self):
            return self
        cut = {name: array(column.typecode, (column[i] for i in kept)) for name, column in self.columns().items()}
        return self.model_copy(update={**cut, "truncated": True, "whole_from": self._whole_from(kept)})

    def _whole_from(self, kept: list[int]) -> int:
        """Return where the gapless records of a cut trace begin."""
        last = len(self) - 1
        together = sum(1 for _ in takewhile(lambda pair: pair[0] == last - pair[1], zip(reversed(kept), count())))
        return max(len(kept) - together, bisect_left(kept, self.whole_from))

    def columns(self) -> "dict[str, array[int]]":
        """Return the columns by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def _kept(self, last: int) -> list[int]:
        seen: dict[tuple[int, int], int] = {}
        kept = []
        for i in range(len(self) - 1, -1, -1):
            lane = (self.group[i], self.is_p2p[i])
            seen[lane] = seen.get(lane, 0) + 1
            if seen[lane] <= last or self.state[i] != State.COMPLETED:
                kept.append(i)
        return kept[::-1]


COLUMNS = (
    "group",
    "signature",
    "call_site",
    "collective_seq",
    "p2p_seq",
    "op_id",
    "is_p2p",
    "state",
    "created_ns",
    "started_ns",
    "completed_ns",
)
"""Names of a trace's columns, in wire order."""
