"""What the one who asks knows beforehand: the job, its size, and the nodes that did not answer."""

from enum import StrEnum

from pydantic import Field

from collector.align.pod_places import Places
from shared.answer.diagnosis import Finding
from shared.missing import Missing
from shared.rank_sets import FoldedRanks
from shared.value import Value


class Unanswered(Value):
    """A node that was asked and gave nothing."""

    host: str
    missing: Missing
    ranks: FoldedRanks = Field(default="", description="Ranks known to run there, from an earlier answer.")


class NodesAsked(StrEnum):
    """How many of a job's nodes answered, where Slurm or Kubernetes says which they are."""

    ALL = "all"
    """Each on which it runs: a rank that none of them has is nowhere."""
    SOME = "some"
    UNKNOWN = "unknown"
    """Nobody says which nodes are the job's."""


class Neighbour(Value):
    """Another job on the same machines that lacks ranks: perhaps the other half of one that was meant."""

    job: str
    world_size: int
    ranks: FoldedRanks
    hosts: tuple[str, ...] = ()
    started_at: float | None = Field(default=None, description="Start of its oldest rank, Unix seconds.")


class FoundHung(Value):
    """What was found of the job the last time that somebody looked while all of it ran: it was hung."""

    made_at: str = Field(description="RFC 3339, UTC.")
    user: str | None = None
    findings: tuple[Finding, ...]


class Expected(Value):
    """The question put to `diagnose`."""

    job: str | None = Field(default=None, description="None: the snapshots hold one job, whatever its name.")
    user: str | None = Field(default=None, description="Whose job it is, as in `Identity.user`; None: not known.")
    world_size: int | None = Field(default=None, description="None: taken from what the ranks say.")
    unanswered: tuple[Unanswered, ...] = ()
    nodes_asked: NodesAsked = NodesAsked.UNKNOWN
    usual_pause_seconds: float | None = Field(
        default=None, description="How long jobs of this name usually pause, learnt from earlier runs; None: unknown."
    )
    faulty_hosts: tuple[str, ...] = Field(
        default=(),
        description="Nodes where jobs have hung twice or more for causes that hardware can have.",
    )
    found_hung: FoundHung | None = Field(
        default=None, description="The last diagnosis from before ranks of it exited, where that found it hung."
    )
    nodes_without_ranks: int = Field(default=0, description="Nodes that answered in full, and have no rank of the job.")
    told: FoldedRanks = Field(
        default="",
        description="Ranks that were not examined: agents report that they stand still, or go on, as others do.",
    )
    unreadable: tuple[Missing, ...] = Field(default=(), description="Files or parts that could not be used.")
    neighbours: tuple[Neighbour, ...] = Field(default=(), description="Jobs beside it that lack ranks as well.")
    places: Places = Field(default=Places(), description="Names of pods and nodes, for what the verdict names.")
