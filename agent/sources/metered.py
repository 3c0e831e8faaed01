"""A source whose answers count towards what one answer of the agent may hold: what is too much is missing."""

from agent.allowance import size_of
from agent.deadline import Deadline
from agent.discover import Rank
from agent.scene import Scene
from agent.sources.source import Answer, Question, Source


class Metered:
    """Asks another source while there is room."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def name(self) -> str:
        """The name of that source."""
        return self._source.name

    def look(self, rank: Rank, scene: Scene, question: Question, deadline: Deadline) -> Answer:
        """Look as that source does. Raises Unavailable as well where the answer is full."""
        scene.allowance.take(0)
        answer = self._source.look(rank, scene, question, deadline)
        scene.allowance.take(size_of(answer.values()))
        return answer
