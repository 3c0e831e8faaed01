"""The one table: who is how far in a group, who waits there in what, what each called, and by whose word.

Every source that counts a group's operations is read into it: flight records, watchdog lines, DETAIL's mismatch lines,
NCCL's call lines, the launches that RAS counts. Of records there are millions: their rows stay in the columns of the
ranks' traces, and a lane says where. Who is behind is asked of all of them alike. Who waits for whom is an `Edge`
(`wait_edges.py`), whatever table tells it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from collector.align.groups.signature_rules import Facts, facts_of
from shared.answer.diagnosis import GroupRef
from shared.rank_sets import fold
from shared.wire.log_events import LogEvent
from shared.wire.trace import Record, Signature, Trace

NONE = -1
"""In the place of a sequence: none was issued, or none completed."""


class Witness(StrEnum):
    """What tells it. Two accusations by one kind of witness count once."""

    RECORDS = "flight records"
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
class Lane:
    """One rank's collectives on one group. Sequences count from 1, torchcomms' from 0; -1 means that there is none."""

    issued: int | None
    """The last; None: the source does not tell."""
    completed: int = NONE
    sequences: tuple[int, ...] = ()
    """What the ring buffer still holds, ascending; coalesced operations share one number."""
    positions: tuple[int, ...] = ()
    """Where in the trace each of `sequences` stands."""
    pending: tuple[int, ...] = ()
    """Sequences issued and not completed, ascending."""
    recorded: bool = True
    """Is that its flight record's word? What is pending in a group's own list may be so for lack of a watchdog."""
    calls: Mapping[int, Call] = field(default_factory=dict)
    """By number, what it called there, where no record holds it."""
    line: LogEvent | None = None
    """The line that tells where it waits, or else how far it has come."""
    heard: bool = True
    """Does the rank tell this itself? Else it is what a counterpart saw of it."""

    @property
    def first_kept(self) -> int:
        return self.sequences[0] if self.sequences else (self.issued or 0) + 1

    @cached_property
    def is_gapless(self) -> bool:
        """Is there exactly one record for each sequence from the first to the last kept?"""
        if not self.sequences or self.sequences[-1] - self.sequences[0] != len(self.sequences) - 1:
            return False  # two numbers can claim any distance: what lies between is not to be counted
        return self.sequences == tuple(range(self.sequences[0], self.sequences[-1] + 1))

    def at(self, sequence: int) -> tuple[int, ...]:
        """Positions of the records of `sequence`; empty where none is held."""
        return self.positions[bisect_left(self.sequences, sequence) : bisect_right(self.sequences, sequence)]


@dataclass(frozen=True)
class PendingP2P:
    """A send or receive that has not completed. `source` and `target` are global ranks; None: not known."""

    rank: int
    op: str
    source: int | None
    target: int | None
    record: Record

    @property
    def peer(self) -> int | None:
        peer = self.target if self.op == "send" else self.source
        return None if peer == self.rank else peer  # PyTorch lets no rank send to itself: the name means another


@dataclass(frozen=True)
class GroupView:
    """One process group across all ranks, by one witness. Of the progress of a member without a lane nothing is known.

    `members` are ranks of the job; `order`, which group ranks count by, is as told, and may name others.
    """

    name: str
    description: str = ""
    members: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    inferred: bool = False
    lanes: Mapping[int, Lane] = field(default_factory=dict)
    """By global rank; by place in the group where `places` is set."""
    traces: Mapping[int, Trace] = field(default_factory=dict, repr=False, compare=False)
    """The columns in which the rows of lanes are."""
    p2p: tuple[PendingP2P, ...] = ()
    others: tuple[int, ...] = ()
    """Ranks of the job that may be members, too, where these are inferred from who was seen in it."""
    witness: Witness = Witness.RECORDS
    title: str = ""
    """What the group is in a sentence; empty: the lines do not say."""
    size: int | None = None
    """Members of the group, those without a lane included, where only their number is known."""
    least: int = 0
    """How many it has at least, where its size is not known."""
    tells_waits: bool = True
    """Does the witness tell who waits? Else it tells calls, and a rank ahead of others need not wait for them."""
    places: bool = False
    """Are ranks known by their place in the group alone?"""
    op: str | None = None
    """The operation, where each is counted by itself."""
    unnamed: Mapping[int, int] = field(default_factory=dict)
    """By the number of the last operation issued, how many members have come so far of whom no rank is known."""
    waits_apart: frozenset[int] = frozenset()
    """Ranks that wait in an operation whose number means nothing to others, such as a send."""

    @cached_property
    def ref(self) -> GroupRef:
        return GroupRef(name=self.name, description=self.description, ranks=fold(self.members))

    @property
    def label(self) -> str:
        """What to call it: by its description, where it has one."""
        return self.description or self.name

    def ref_of(self, ranks: Iterable[int]) -> GroupRef:
        """The group for the answer, with those of its members that are meant."""
        return GroupRef(name=self.name, description=self.description, ranks=fold(() if self.places else ranks))

    @property
    def is_default(self) -> bool:
        """Is it the group of the whole world?"""
        return is_default(self.name, self.description)

    @property
    def is_guessed(self) -> bool:
        """Are its members inferred, and not simply all ranks?"""
        return self.inferred and self.name != "0"

    @cached_property
    def is_settled(self) -> bool:
        """Is it known who its members are? Of an inferred group once all have been in it: an operation is completed."""
        return not self.inferred or self.is_default or any(lane.completed > 0 for lane in self.lanes.values())

    @cached_property
    def unknown(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank not in self.lanes)

    def waiting_at(self, sequence: int) -> tuple[int, ...]:
        """Ranks that have issued `sequence` and have not completed it."""
        return tuple(rank for rank, lane in self.lanes.items() if sequence in lane.pending)

    def absent_at(self, sequence: int) -> tuple[int, ...]:
        """Ranks that have not issued `sequence`, as far as known."""
        return behind(self.issued, sequence)

    def completed_at(self, sequence: int) -> tuple[int, ...]:
        """Ranks that have completed `sequence`."""
        lanes = self.lanes.items()
        return tuple(r for r, lane in lanes if lane.completed >= sequence and sequence not in lane.pending)

    def left_behind_at(self, sequence: int) -> bool:
        """Is `sequence` unfinished on some members, while all others have completed it?"""
        if sequence not in self._left_behind:  # asked once for each of those who wait
            waiting, done = self.waiting_at(sequence), self.completed_at(sequence)
            recorded = all(lane.recorded for lane in self.lanes.values())
            self._left_behind[sequence] = recorded and bool(done) and len(waiting) + len(done) == len(self.members)
        return self._left_behind[sequence]

    def is_met_at(self, sequence: int) -> bool:
        """Have several ranks issued `sequence`?"""
        return len(self._issued) > 1 and self._issued[-2] >= sequence

    @cached_property
    def _left_behind(self) -> dict[int, bool]:
        return {}

    @cached_property
    def issued(self) -> dict[int, int]:
        """By rank, the last sequence that it has issued, as far as known."""
        return {rank: lane.issued for rank, lane in self.lanes.items() if lane.issued is not None}

    @cached_property
    def waiting(self) -> dict[int, int]:
        """By rank, the sequence of the operation that it waits in."""
        return {rank: lane.pending[0] for rank, lane in self.lanes.items() if lane.pending}

    def parts_at(self, rank: int, sequence: int) -> tuple[Signature, ...]:
        """What the record of `rank` holds at `sequence`: several of a batch, the entry that ends it last."""
        trace = self.traces[rank]
        return tuple(trace.signatures[trace.signature[at]] for at in self.lanes[rank].at(sequence))

    def facts_at(self, rank: int, sequence: int) -> tuple[Facts, ...]:
        """What of that must agree; empty where it is no member, or nothing is held."""
        return tuple(map(facts_of, self.parts_at(rank, sequence))) if rank in self.lanes else ()

    def standing(self, ranks: Iterable[int]) -> dict[str, str]:
        """Who of some ranks stands where, folded, by the number as the witness writes it."""
        found: dict[str, list[int]] = defaultdict(list)
        for rank in ranks:
            last = self.issued.get(rank)
            found["unknown" if last is None else "none" if last == NONE else self.written(last)].append(rank)
        return {mark: fold(each) for mark, each in sorted(found.items())}

    @property
    def is_pair(self) -> bool:
        """Has the group two members, as far as is known?"""
        return self.size == 2 or (self.size is None and self.least <= 2 and max(self.lanes, default=0) < 2)

    @property
    def silent(self) -> int:
        """Members that there are and that have no lane."""
        return max(0, (self.size or self.least) - len(self.lanes))

    def call(self, rank: int, number: int) -> Call | None:
        """What a rank called at a number, where no record holds it."""
        return self.lanes[rank].calls.get(number) if rank in self.lanes else None

    def at(self, number: int) -> str:
        """Say which operation has a number; empty where the lines do not say of which group."""
        if not self.title:
            return ""
        return f" {'at opCount ' if self.witness is Witness.CALLS else '#'}{self.written(number)} of {self.title}"

    def written(self, number: int) -> str:
        """Return a number as the witness writes it."""
        return f"{number:x}" if self.witness is Witness.CALLS else str(number)

    @cached_property
    def _issued(self) -> list[int]:
        return sorted(self.issued.values())


def is_default(name: str, description: str) -> bool:
    """Is a group of that name the one of the whole world?"""
    return name == "0" or description == "default_pg"


def behind(issued: Mapping[int, int], number: int) -> tuple[int, ...]:
    """Return who has not come to the operation of a number, by the last that each is known to have issued."""
    return tuple(rank for rank, last in issued.items() if last < number)


Line = tuple[int | None, LogEvent]
"""A line, and the rank that wrote it, where that is known."""


@dataclass(frozen=True)
class Lag:
    """Members of a group that have not come to what the others wait in, or have called: by its table or a report."""

    table: GroupView
    number: int | None
    what: str
    """The operation, in a sentence."""
    waiting: tuple[int, ...]
    behind: tuple[int, ...]
    """Global ranks, ascending; empty where a report does not show which ranks it means."""
    came: int
    missing: int
    """How many have come and how many have not, those included that have no name here."""
    reporter: str = ""
    """Who says so of others; empty: the ranks themselves."""
    places: str = ""
    """Those behind as a report names them."""
    lines: tuple[Line, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def op(self) -> str | None:
        """What those who wait have called."""
        called = (self.table.call(rank, self.number) for rank in self.waiting if self.number is not None)
        return next((call.op for call in called if call is not None and call.op is not None), self.table.op)

    @property
    def first_lacking(self) -> int:
        """The first operation that one of those behind has not issued."""
        return 1 + min(self.table.issued[rank] for rank in self.behind)

    @property
    def shows_waits(self) -> bool:
        """Do those who wait say so themselves? Else they may only be ahead."""
        return self.table.tells_waits and not self.reporter

    @property
    def may_be_named(self) -> bool:
        """Are those behind known, and are they not more than those who have come? One against one is a tie."""
        tied = len(self.waiting) == self.missing == 1 and not self.reporter and not self.table.is_pair
        return bool(self.behind) and self.missing <= self.came and not tied
