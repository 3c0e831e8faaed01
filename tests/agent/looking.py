"""Asks single sources about single processes, as a look would."""

from typing import Any

from agent.deadline import Deadline
from agent.discover import Rank
from agent.procfs import ProcFs
from agent.scene import Scene
from agent.sources.source import Question, Source
from shared.snapshot import Identity

PLAIN = Question()


def rank_of(pid: int, *, children: tuple[int, ...] = (), **environment: str) -> Rank:
    """Take any process for rank 0 of a job."""
    procfs = ProcFs()
    stat = procfs.stat(pid)
    identity = Identity(job="made-up", rank=0, host="here", pid=pid, started_at=procfs.started_at(stat))
    return Rank(identity, stat, environment, children)


def ask(source: Source, rank: Rank, question: Question = PLAIN, *, seconds: float = 10.0) -> Any:
    """Ask one source about one rank; return the part of the snapshot that it is named after."""
    return source.look(rank, Scene(ProcFs(), "here"), question, Deadline(seconds))[source.name]
