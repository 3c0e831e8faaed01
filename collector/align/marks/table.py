"""The table of marks: who has come how far in a group, who waits there for what, and what each called at which number.

Every source that counts a group's operations is read into it: watchdog lines, DETAIL's mismatch lines, NCCL's call
lines, the launches that RAS counts. The flight records of a job are the same table, kept in columns, for they hold
millions of rows: a `GroupView` with its lanes.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.answer.diagnosis import GroupRef
from shared.rank_sets import fold
from shared.wire.log_events import LogEvent


class Witness(StrEnum):
    """What an accusation by logs rests on. Two of one kind of witness count once."""

    COUNTERS = "watchdog lines"
    FINGERPRINTS = "mismatch lines"
    BARRIER = "a monitored barrier"
    CALLS = "NCCL's call lines"
    OWN_WORD = "the rank's own log lines"
    ENDED = "what ended, by the launcher, Slurm or the kernel"
    STORE = "store and rendezvous lines"
    TRANSPORT = "transport errors"
    LAUNCHES = "NCCL RAS"


@dataclass(frozen=True)
class Call:
    """What a rank called, or waits in."""

    facts: Hashable
    """What must be equal on all members; None: not known."""
    words: str
    op: str | None = None
    sizes: str = ""
    dtypes: str = ""


@dataclass(frozen=True)
class RankMark:
    """How far one rank is in one group. Each field is None, or empty, where the source does not tell."""

    issued: int | None = None
    """The number of the last operation that it is known to have issued."""
    waits_in: int | None = None
    """The number of the operation that it waits in."""
    calls: Mapping[int, Call] | None = None
    """By number, what it called there."""
    line: LogEvent | None = None
    """What tells where it waits, or else how far it has come."""
    heard: bool = True
    """Does the rank tell this itself? Else it is what a counterpart saw of it."""


@dataclass(frozen=True)
class MarkTable:
    """The marks of one group by one source."""

    witness: Witness
    title: str
    """What the group is in a sentence; empty: the lines do not say."""
    group: GroupRef
    """Name and description: whose members it has is up to the marks."""
    marks: Mapping[int, RankMark]
    """By global rank; by place in the group where `places` is set."""
    size: int | None = None
    """Members of the group, those without a mark included."""
    least: int = 0
    """How many it has at least, where its size is not known."""
    tells_waits: bool = True
    """Does the source tell who waits? Else it tells calls, and a rank ahead of others need not wait for them."""
    places: bool = False
    """Are ranks known by their place in the group alone?"""
    op: str | None = None
    """The operation, where each is counted by itself."""
    unnamed: Mapping[int, int] = field(default_factory=dict)
    """By the number of the last operation issued, how many members have come so far of whom no rank is known."""
    waits_apart: frozenset[int] = frozenset()
    """Ranks that wait in an operation whose number means nothing to others, such as a send."""

    def at(self, number: int) -> str:
        """Say which operation has a number; empty where the lines do not say of which group."""
        if not self.title:
            return ""
        return (
            f" at opCount {number:x} of {self.title}"
            if self.witness is Witness.CALLS
            else f" #{number} of {self.title}"
        )

    @property
    def waiting(self) -> dict[int, int]:
        """By rank, the number of the operation that it waits in."""
        return {rank: mark.waits_in for rank, mark in self.marks.items() if mark.waits_in is not None}

    @property
    def issued(self) -> dict[int, int]:
        """By rank, the number of the last operation that it is known to have issued."""
        return {rank: mark.issued for rank, mark in self.marks.items() if mark.issued is not None}

    @property
    def is_pair(self) -> bool:
        """Has the group two members, as far as is known?"""
        return self.size == 2 or (self.size is None and self.least <= 2 and max(self.marks, default=0) < 2)

    @property
    def silent(self) -> int:
        """Members that there are and that have no mark."""
        return max(0, (self.size or self.least) - len(self.marks))

    def ref(self, ranks: Iterable[int]) -> GroupRef:
        """The group for the answer, with the members that are known."""
        return self.group.model_copy(update={"ranks": fold(() if self.places else ranks)})

    def call(self, rank: int, number: int) -> Call | None:
        return (self.marks[rank].calls or {}).get(number)


def behind(issued: Mapping[int, int], number: int) -> tuple[int, ...]:
    """Return who has not come to the operation of a number, by the last that each is known to have issued."""
    return tuple(rank for rank, last in issued.items() if last < number)


Line = tuple[int | None, LogEvent]
"""A line, and the rank that wrote it, where that is known."""


@dataclass(frozen=True)
class Lag:
    """Members of a group that have not come to what the others wait in, or have called: by marks, or by a report."""

    witness: Witness
    what: str
    """The operation, in a sentence."""
    waiting: tuple[int, ...]
    behind: tuple[int, ...]
    """Global ranks, ascending; empty where a report does not show which ranks it means."""
    came: int
    missing: int
    """How many have come and how many have not, those included that have no name here."""
    op: str | None = None
    number: int | None = None
    group: GroupRef | None = None
    tells_waits: bool = True
    """Does the source show that those who have come wait? Else they may only be ahead."""
    issued: Mapping[int, int] = field(default_factory=dict)
    """By rank, the last operation that it is known to have issued; empty for a report."""
    unnamed: Mapping[int, int] = field(default_factory=dict)
    """As in the table: members that have no name here."""
    reporter: str = ""
    """Who says so of others; empty: the marks of the ranks themselves."""
    tied: bool = False
    """Is it one against one, in a group of more?"""
    places: str = ""
    """Those behind as a report names them."""
    lines: tuple[Line, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def first_lacking(self) -> int:
        """The first operation that one of those behind has not issued."""
        return 1 + min(self.issued[rank] for rank in self.behind)

    @property
    def shows_waits(self) -> bool:
        """Do those who wait say so themselves?"""
        return self.tells_waits and not self.reporter

    def written(self, number: int) -> str:
        """Return a number as the source writes it."""
        return f"{number:x}" if self.witness is Witness.CALLS else str(number)
