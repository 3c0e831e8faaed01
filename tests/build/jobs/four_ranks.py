"""The job that most tests look at: four ranks that reduce together, of which some stay away, or none gets out."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Trace
from tests.build.jobs.placed import placed, with_rank
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks

RANKS = range(4)
TWO_NODES: Mapping[str, str] = MappingProxyType({"a": "0-1", "b": "2-3"})
AWAY = Seen((USER,))
"""In user code, asleep: how a rank that stays away is seen."""


def job_without(*away: int, joined: int = 4) -> Job:
    """Four ranks reduce; those who are `away` have joined so many times, and the others wait for them."""
    steps: dict[int, Sequence[Step]] = {
        rank: [*[Collective(WORLD)] * joined, Stay()] if rank in away else [Collective(WORLD)] * (joined + 2)
        for rank in RANKS
    }
    return Job(steps)


def looks_without(
    away: Mapping[int, Seen],
    *,
    joined: int = 4,
    absent: Sequence[int] = (),
    hosts: Mapping[str, str] | None = None,
    **looking: Any,
) -> list[NodeSnapshot]:
    """Two looks at four ranks of which some are `away`, as they are seen there, and of some there is no process.

    `hosts` as for `placed`, None for one node; the rest is for `live_looks`.
    """
    seen = {rank: away.get(rank, Seen()) for rank in RANKS if rank not in absent}
    looks = live_looks(job_without(*away, joined=joined), seen, world_size=len(RANKS), **looking)
    return looks if hosts is None else placed(looks, hosts)


def looks_at_all_stuck(
    *, hosts: Mapping[str, str] | None = TWO_NODES, operations: int = 4, **looking: Any
) -> list[NodeSnapshot]:
    """Two looks at four ranks that have all issued an operation, their first or a later one, that nobody completes."""
    job = Job({rank: [Collective(WORLD)] * operations for rank in RANKS})
    looks = live_looks(job, {rank: Seen() for rank in RANKS}, **looking)
    for rank in RANKS:
        looks = with_rank(looks, rank, recorder=trace_without_end(job, rank))
    return looks if hosts is None else placed(looks, hosts)


def trace_without_end(job: Job, rank: int) -> Trace:
    """The record of a rank whose last operation is not completed."""
    trace = job.trace(rank)
    state, completed = trace.state[:], trace.completed_ns[:]
    state[-1], completed[-1] = 0, 0
    marks = tuple(mark.model_copy(update={"completed": mark.issued - 1}) for mark in trace.marks)
    return trace.model_copy(update={"state": state, "completed_ns": completed, "marks": marks})
