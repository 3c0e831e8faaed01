"""A finding before it is put into words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge, age_of
from collector.align.observations import Observations
from collector.align.roster import Presence, Roster
from collector.align.work.trails import Trail
from collector.judge.certainty import Support, Sure, how_sure
from collector.judge.records.compare_sequences import Mismatch
from shared.answer.diagnosis import ChainLink, Evidence, GroupRef, Link, NextStep, Where
from shared.answer.words import Cause, Kind
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.wire.snapshot import PolledLock


class Accuser(StrEnum):
    """What names culprits of whom no look tells anything, beyond that others wait for them."""

    LOGS = "logs"
    RAS = "ras"
    CONNECTIONS = "connections"


@dataclass(frozen=True)
class Fault:
    """A finding before it is put into words: who, what sort, how sure, and the edges and sides that show it."""

    kind: Kind
    culprits: tuple[int, ...]
    victims: tuple[int, ...]
    certainty: Sure
    cause: Cause | None = None
    """None: taken from what the culprit is doing."""
    edges: tuple[Edge, ...] = ()
    mismatch: Mismatch | None = None
    cycle: tuple[Edge, ...] = ()
    group: GroupView | None = None
    op: str | None = None
    sequence: int | None = None
    remarks: tuple[str, ...] = ()
    named_by: frozenset[Accuser] = frozenset()
    """Empty: it rests on records, stacks and process states alone, or on nothing but absence."""
    evidence: tuple[Evidence, ...] = ()
    """What it rests on besides records, stacks and process states."""
    said: str = ""
    """The finding in one sentence, where the usual words do not fit its evidence."""
    late: str = ""
    """For how long others wait for it in each step, as ` for 0.70 s of 0.80 s`."""
    ref: GroupRef | None = None
    """The group, where no record tells of it."""
    links: tuple[Link, ...] = ()
    lock: PolledLock | None = None
    """The lock file that the victims poll."""
    where: Where | None = None
    """Where the process stands that is at fault, if that is no rank."""
    steps: tuple[NextStep, ...] = ()
    """What to do about that process."""
    trails: tuple[Trail, ...] = ()
    """Where waits beyond the groups lead."""
    chain: tuple[ChainLink, ...] = ()
    """The same, with those who wait in the groups."""

    @property
    def is_owed_elsewhere(self) -> bool:
        """Is nobody of the job to blame, but processes outside of it, as far as is seen?"""
        return bool(self.trails) and not self.culprits and all(trail.is_owed_elsewhere for trail in self.trails)

    @property
    def blames_somebody(self) -> bool:
        """Does it name culprits, and by more than suspicion?"""
        return bool(self.culprits) and not self.certainty.is_suspicion

    def waiting_for(self, rank: int, *, besides: Iterable[int] = ()) -> tuple[ChainLink, ...]:
        """Return who waits for a rank in the operation, as the first of a chain; (): nobody else does."""
        others = sorted({*self.victims} - {rank, *besides})
        inside = f" in {self.op}{'' if self.sequence is None else f' #{self.sequence}'}" if self.op else ""
        does = f"{either(others, 'waits', 'wait')} for rank {rank}{inside}"
        return (ChainLink(who=ranks_in_words(others), does=does),) if others else ()

    def resting_on(self, support: Support, **changes: Any) -> "Fault":
        """Return the fault as something else shows it, with what is changed by that."""
        return replace(self, certainty=how_sure(changes.get("kind", self.kind), support), **changes)

    def convicting(self, odd: Iterable[int], support: Support, *remarks: str) -> "Fault":
        """Return the fault with others as its culprits, whose calls are not those of the rest."""
        culprits, kind, cause = tuple(sorted(odd)), Kind.COLLECTIVE_MISMATCH, Cause.USER_CODE
        victims = tuple(sorted({*self.culprits, *self.victims} - {*culprits}))
        return self.resting_on(support, kind=kind, culprits=culprits, victims=victims, cause=cause, remarks=remarks)

    def without_culprits(self) -> "Fault":
        """Return the fault as one that blames nobody: what was to tell the guilty from the innocent failed."""
        everybody = ranks_in_words(sorted({*self.culprits, *self.victims}))
        remark = f"{everybody} are held up, and a part of unhang that tells by whom failed"
        return self.resting_on(Support.PART_FAILED, culprits=(), remarks=(remark,))


NEVER_PASSES = frozenset({Kind.RANK_EXITED, Kind.RANK_STOPPED, Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION})
"""Kinds of faults that time does not heal: they need no stall to be told from a pause."""

TELLING = frozenset(set(Cause) - {Cause.USER_CODE, Cause.UNKNOWN, Cause.TEARDOWN, Cause.COMMUNICATION})
"""Causes that hold a rank against its will, whatever the others do."""


_PRESENCE_KINDS = {
    Presence.EXITED: Kind.RANK_EXITED,
    Presence.UNREACHABLE: Kind.RANK_UNREACHABLE,
    Presence.STOPPED: Kind.RANK_STOPPED,
    Presence.ABSENT: Kind.RANK_MISSING,
    Presence.LEFT_OUT: Kind.RANK_MISSING,
    Presence.UNSEEN: Kind.RANK_MISSING,
}


def kind_of(root: int, observations: Observations) -> Kind:
    """What sort of fault a rank is that others wait for, by what has become of its process."""
    view = observations.roster.ranks[root]
    return Kind.RANK_NOT_JOINED if view.undumped else _PRESENCE_KINDS.get(view.presence, Kind.RANK_NOT_JOINED)


def left_out(ranks: Iterable[int], observations: Observations) -> bool:
    """Is any of these ranks only not where all others are? That makes it no more than suspect."""
    return any(observations.roster.ranks[rank].presence is Presence.LEFT_OUT for rank in ranks)


def ended_well(kind: Kind, ranks: Sequence[int], waiting: int, observations: Observations) -> bool:
    """Did they end without a fault, and are they as many as those who still wait? The few may be one call ahead."""
    ended = [observations.roster.ranks[rank].exited for rank in ranks]
    well = kind is Kind.RANK_EXITED and all(one is not None and one.exit_code == 0 for one in ended)
    return well and len(ranks) >= waiting


def waited_in(edges: tuple[Edge, ...], about: Edge | None = None) -> dict[str, Any]:
    """Return edges, and the operation that the first of them, or another one, is about, as fields of a fault."""
    first = about or first_edge(edges)
    if first is None:
        return {"edges": edges}
    return {"edges": edges, "group": first.group, "op": first.signature.op, "sequence": first.sequence}


def first_edge(edges: Iterable[Edge]) -> Edge | None:
    """The edge that has waited longest, collectives first."""
    return min(edges, key=age_of, default=None)


def shown_by_process(kind: Kind, ranks: Sequence[int], roster: Roster) -> bool:
    """Is the state of their processes all the proof that is needed: stopped, or ended as somebody saw?"""
    return kind is Kind.RANK_STOPPED or all(roster.ranks[rank].exited is not None for rank in ranks)
