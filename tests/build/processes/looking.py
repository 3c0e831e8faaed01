"""Asks single sources about single processes, as a look would."""

from typing import Any

from agent.deadline import Deadline
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.source import LookDepth, Source
from shared.wire.snapshot import Identity

PLAIN = LookDepth()


def rank_of(pid: int, *, children: tuple[int, ...] = (), **environment: str) -> Rank:
    """Take any process for rank 0 of a job."""
    procfs = ProcFs()
    stat = procfs.stat(pid)
    identity = Identity(job="made-up", rank=0, host="here", pid=pid, started_at=procfs.started_at(stat))
    return Rank(identity, stat, environment, children)


def ask_source(source: Source, rank: Rank, question: LookDepth = PLAIN, *, seconds: float = 10.0) -> Any:
    """Ask one source about one rank; return the part of the snapshot that it is named after."""
    return source.look(rank, LookContext(ProcFs(), "here"), question, Deadline(seconds))[source.name]
