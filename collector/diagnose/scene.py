"""What the steps hand on: the scene that steps 1 to 3 and 8 have set, and the faults that the later ones find in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.diagnose.activity import Activity
from collector.diagnose.groups import GroupView
from collector.diagnose.heard.statements import NOTHING_HEARD, Statements
from collector.diagnose.motion import JobMotion
from collector.diagnose.nodes import NodeFacts
from collector.diagnose.patterns import Doing
from collector.diagnose.roster import Presence, Roster
from collector.diagnose.signatures import Mismatch
from collector.diagnose.waits import Edge, age_of
from shared.diagnosis import Cause, Certainty, Evidence, GroupRef, Kind, Link
from shared.trace import Trace


@dataclass(frozen=True)
class Fault:
    """A finding before it is put into words: who, what sort, how sure, and the edges and sides that show it."""

    kind: Kind
    culprits: tuple[int, ...]
    victims: tuple[int, ...]
    certainty: Certainty
    cause: Cause | None = None
    """None: taken from what the culprit is doing."""
    edges: tuple[Edge, ...] = ()
    mismatch: Mismatch | None = None
    cycle: tuple[Edge, ...] = ()
    group: GroupView | None = None
    op: str | None = None
    sequence: int | None = None
    remarks: tuple[str, ...] = ()
    ground: tuple[Evidence, ...] = ()
    """What it rests on besides records, stacks and process states."""
    said: str = ""
    """The finding in one sentence, where the usual words do not fit its ground."""
    ref: GroupRef | None = None
    """The group, where no record tells of it."""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Scene:
    """Everything that steps 1 to 3 and 8 have found out, as later steps need it."""

    roster: Roster
    motion: JobMotion
    groups: tuple[GroupView, ...]
    traces: dict[int, Trace]
    activities: dict[int, Activity]
    edges: tuple[Edge, ...] = field(default=())
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    """What each node's kernel log and GPUs tell, by host."""
    heard: Statements = NOTHING_HEARD

    def overwritten(self, ranks: Iterable[int]) -> bool:
        """May records of these ranks be gone that would tell: the counterpart of a send, what came before a call?"""
        return any(self.traces[rank].truncated for rank in ranks if rank in self.traces)

    def doing(self, rank: int) -> Doing:
        activity = self.activities.get(rank)
        return Doing.UNKNOWN if activity is None else activity.doing


TELLING = frozenset(set(Cause) - {Cause.USER_CODE, Cause.UNKNOWN, Cause.TEARDOWN, Cause.COMMUNICATION})
"""Causes that hold a rank against its will, whatever the others do."""

_PRESENCE_KINDS = {
    Presence.EXITED: Kind.RANK_EXITED,
    Presence.UNREACHABLE: Kind.RANK_UNREACHABLE,
    Presence.STOPPED: Kind.RANK_STOPPED,
    Presence.ABSENT: Kind.RANK_MISSING,
    Presence.UNSEEN: Kind.RANK_MISSING,
}


def kind_of(root: int, scene: Scene) -> Kind:
    """What sort of fault a rank is that others wait for, by what has become of its process."""
    return _PRESENCE_KINDS.get(scene.roster.ranks[root].presence, Kind.RANK_NOT_JOINED)


def first_edge(edges: Iterable[Edge]) -> Edge | None:
    """The edge that has waited longest, collectives first."""
    return min(edges, key=age_of, default=None)
