"""What every source of a look is: something that is asked about one rank and answers with a part of its snapshot."""

from typing import Literal, NamedTuple, Protocol

from agent.deadline import Deadline
from agent.find.choose_ranks import Rank
from agent.sources.look_context import LookContext, size_of

StackMode = Literal["plain", "native", "none"]
Answer = dict[str, object]
"""Fields of a RankSnapshot."""


class LookDepth(NamedTuple):
    """How deep to look."""

    stacks: StackMode = "plain"
    window: int = 64
    full: bool = False
    brief: bool = False
    """For a survey: without descriptors, and of the ranks alone, not of what they have started."""
    every_thread: bool = False
    """With native stacks: also of threads that Python does not know, which stops the process once more."""


class Source(Protocol):
    """One way to look at a rank. Its `name` is the field of the snapshot that it fills."""

    @property
    def name(self) -> str: ...

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        """Look at `rank`. Raises Unavailable, Gone or NotPermitted; the look turns any failure into Missing."""
        ...


class Metered:
    """Asks another source while there is room."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def name(self) -> str:
        """The name of that source."""
        return self._source.name

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        """Look as that source does. Raises Unavailable as well where the answer is full."""
        context.allowance.take(0)
        answer = self._source.look(rank, context, question, deadline)
        context.allowance.take(size_of(answer.values()))
        return answer
