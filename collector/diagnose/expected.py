"""What the one who asks knows beforehand: the job, its size, and the nodes that did not answer."""

from pydantic import Field

from shared.missing import Missing
from shared.ranks import FoldedRanks
from shared.value import Value


class Unanswered(Value):
    """A node that was asked and gave nothing."""

    host: str
    missing: Missing
    ranks: FoldedRanks = Field(default="", description="Ranks known to run there, from an earlier answer.")


class Expected(Value):
    """The question put to `diagnose`."""

    job: str | None = Field(default=None, description="None: the snapshots hold one job, whatever its name.")
    world_size: int | None = Field(default=None, description="None: taken from what the ranks say.")
    unanswered: tuple[Unanswered, ...] = ()
    unreadable: tuple[Missing, ...] = Field(default=(), description="Files or parts that could not be used.")
