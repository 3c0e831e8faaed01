"""What the one who asks knows beforehand: the job, its size, and the nodes that did not answer."""

from pydantic import Field

from collector.align.pod_places import Places
from shared.missing import Missing
from shared.ranks import FoldedRanks
from shared.value import Value


class Unanswered(Value):
    """A node that was asked and gave nothing."""

    host: str
    missing: Missing
    ranks: FoldedRanks = Field(default="", description="Ranks known to run there, from an earlier answer.")


class Neighbour(Value):
    """Another job on the same machines that lacks ranks: perhaps the other half of one that was meant."""

    job: str
    world_size: int
    ranks: FoldedRanks
    hosts: tuple[str, ...] = ()
    started_at: float | None = Field(default=None, description="Start of its oldest rank, Unix seconds.")


class Expected(Value):
    """The question put to `diagnose`."""

    job: str | None = Field(default=None, description="None: the snapshots hold one job, whatever its name.")
    user: str | None = Field(default=None, description="Whose job it is, as in `Identity.user`; None: not known.")
    world_size: int | None = Field(default=None, description="None: taken from what the ranks say.")
    unanswered: tuple[Unanswered, ...] = ()
    unreadable: tuple[Missing, ...] = Field(default=(), description="Files or parts that could not be used.")
    neighbours: tuple[Neighbour, ...] = Field(default=(), description="Jobs beside it that lack ranks as well.")
    places: Places = Field(default=Places(), description="Names of pods and nodes, for what the verdict names.")
