"""Who waits for whom: in an operation of a group, and in turn over waits of every kind."""

from pydantic import Field

from shared.answer.contract import Contract
from shared.rank_sets import FoldedRanks


class GroupRef(Contract):
    """A process group, known by its name and members."""

    name: str
    description: str = ""
    ranks: FoldedRanks = ""


class Place(Contract):
    """One frame. `line` is 0 if unknown."""

    function: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


class Wait(Contract):
    """One edge of the wait-for graph."""

    rank: int
    waits_for: FoldedRanks
    group: GroupRef | None = None
    op: str | None = None
    sequence: int | None = None
    call_site: Place | None = None


class ChainLink(Contract):
    """Who waits where waits lead beyond the groups of ranks or, as the last of a chain, who is waited for."""

    who: str = Field(description="`ranks 0-1`, `pid 38 (python)`, `rank 0 of job rollout (pid 13)`, or an address.")
    does: str = Field(description="In what it waits and for whom; the last: what it does, as far as that was seen.")
    job: str | None = Field(default=None, description="Its job, where that is another one.")
    closes: bool = Field(default=False, description="Does it wait for one that stands before it: a circle?")
