"""A finding before it is put into words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge, age_of
from collector.align.observations import Observations
from collector.align.roster import Presence
from collector.judge.records.compare_sequences import Mismatch
from shared.answer.diagnosis import Evidence, GroupRef, Link
from shared.answer.words import Cause, Certainty, Kind
from shared.wire.snapshot import PolledLock


class Accuser(StrEnum):
    """What names culprits of whom no look tells anything, beyond that others wait for them."""

    LOGS = "logs"
    RAS = "ras"
    CONNECTIONS = "connections"


class Sure(NamedTuple):
    """How sure a finding is, and why: a row of the table in `certainty`."""

    level: Certainty
    sources: int
    """Independent sources that it takes."""
    reason: str
    """Told to users, behind the word."""


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
    ref: GroupRef | None = None
    """The group, where no record tells of it."""
    links: tuple[Link, ...] = ()
    lock: PolledLock | None = None
    """The lock file that the victims poll."""


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


def waited_in(fault: Fault, edge: Edge | None) -> Fault:
    """Return the fault with the operation that an edge is about."""
    if edge is None:
        return fault
    return replace(fault, group=edge.group, op=edge.signature.op, sequence=edge.sequence)


def first_edge(edges: Iterable[Edge]) -> Edge | None:
    """The edge that has waited longest, collectives first."""
    return min(edges, key=age_of, default=None)
