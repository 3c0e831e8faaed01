"""What every source of a look is: something that is asked about one rank and answers with a part of its snapshot."""

from typing import Literal, NamedTuple, Protocol

from agent.deadline import Deadline
from agent.discover import Rank
from agent.scene import Scene

StackMode = Literal["plain", "native", "none"]
Answer = dict[str, object]
"""Fields of a RankSnapshot."""


class Question(NamedTuple):
    """How deep to look."""

    stacks: StackMode = "plain"
    window: int = 64
    full: bool = False
    brief: bool = False
    """For a survey: without descriptors, and of the ranks alone, not of what they have started."""


class Source(Protocol):
    """One way to look at a rank. Its `name` is the field of the snapshot that it fills."""

    @property
    def name(self) -> str: ...

    def look(self, rank: Rank, scene: Scene, question: Question, deadline: Deadline) -> Answer:
        """Look at `rank`. Raises Unavailable, Gone or NotPermitted; the look turns any failure into Missing."""
        ...
