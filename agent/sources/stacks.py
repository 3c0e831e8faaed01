"""The source `stacks`: the Python stacks of a rank and of its children, such as DataLoader workers."""

import os
import threading
from functools import partial
from pathlib import Path

from agent.beat import take_settled_beat
from agent.deadline import Crew, Deadline
from agent.discover import Rank
from agent.errors import Gone, Unavailable
from agent.scene import Scene
from agent.sources.process import read_process, with_path
from agent.sources.pyspy import dump_stacks
from agent.sources.source import Answer, Question
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.snapshot import Child
from shared.stacks import Stacks

_MOST_CHILDREN = 32
_PLAIN_SECONDS = 3.0
_NATIVE_SECONDS = 20.0


class StacksSource:
    """Fills `stacks` and `children`. As many processes are stopped at a time as there are CPUs, not more."""

    name = "stacks"

    def __init__(self, program: Path | None, crew: Crew) -> None:
        self._program = program
        self._crew = crew
        self._turns = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))

    def look(self, rank: Rank, scene: Scene, question: Question, deadline: Deadline) -> Answer:
        if question.stacks == "none":
            raise Unavailable(Reason.NOT_ENABLED, "the question asked for no stacks")
        native = question.stacks == "native"
        stacks = self._stacks(rank.stat.pid, scene, native=native, deadline=deadline)
        return {"stacks": stacks, "children": self._children(rank, scene, deadline)}

    def _stacks(self, pid: int, scene: Scene, *, native: bool, deadline: Deadline) -> Stacks | Missing:
        try:
            if not self._turns.acquire(timeout=deadline.left()):
                raise Unavailable(Reason.TIMED_OUT, "other processes were looked at all the time")
            try:
                limit = deadline.at_most(_NATIVE_SECONDS if native else _PLAIN_SECONDS)
                return dump_stacks(scene.procfs, pid, self._program, native=native, deadline=limit)
            finally:
                self._turns.release()
        except Unavailable as error:
            return Missing(source="stacks", reason=error.reason, detail=str(error))
        except Gone as error:
            return Missing(source="stacks", reason=Reason.GONE, detail=str(error))
        except NotPermitted as error:
            return Missing(source="stacks", reason=Reason.NOT_PERMITTED, detail=f"{error}; {error.advice}")

    def _children(self, rank: Rank, scene: Scene, deadline: Deadline) -> tuple[Child, ...]:
        pids = rank.children[:_MOST_CHILDREN]
        looks = {str(pid): partial(self._child, pid, scene, deadline) for pid in pids}
        answers = self._crew.run(looks, deadline, owner=rank.key)
        return tuple(answer for answer in answers.values() if isinstance(answer, Child))

    def _child(self, pid: int, scene: Scene, deadline: Deadline) -> Child:
        process = with_path(read_process(scene, pid), scene, self._crew, deadline)
        stacks = self._stacks(pid, scene, native=False, deadline=deadline)
        after = take_settled_beat(scene.procfs, pid)
        return Child(process=process.model_copy(update={"after": after}), stacks=stacks)
