"""A job of thousands of ranks, made of one of sixteen: to simulate it step by step, and to judge it, takes minutes."""

from collector.align.expected import Expected
from collector.keep.kept import Kept
from shared.answer.diagnosis import Coverage, Culprit, Diagnosis, Finding, GroupRef, NextStep, Place, StackClass, Where
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.rank_sets import fold
from shared.wire.snapshot import NodeSnapshot, Process, RankSnapshot
from shared.wire.trace import Group, Trace
from tests.build.jobs.simulated import ALL_REDUCE, LOADER, USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks
from tests.build.jobs.verdicts import SIGNED

_PER_NODE = 8
_AWAY = 11


def large_job(ranks: int, *, culprit: int) -> Kept:
    """Return `ranks` on nodes of eight, each a group `tensor`, of which `culprit` is in its DataLoader."""
    groups = {"tensor0": tuple(range(8)), "tensor1": tuple(range(8, 16))}
    small = Job({rank: _steps(rank) for rank in range(16)}, groups)
    seen = {rank: Seen((USER, LOADER if rank == _AWAY else ALL_REDUCE)) for rank in range(16)}
    look = live_looks(small, seen)[-1]
    model = {each.identity.rank: each for each in look.ranks}
    looks = tuple(_node(look, node, model, ranks, culprit) for node in range(ranks // _PER_NODE))
    return Kept(diagnosis=_verdict(ranks, culprit), expected=Expected(job="sim"), snapshots=looks)


def _verdict(ranks: int, culprit: int) -> Diagnosis:
    others = fold(rank for rank in range(ranks) if rank != culprit)
    host = f"node{culprit // _PER_NODE:04}"
    user = Place(function=USER.function, file=USER.file, line=USER.line)
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        cause=Cause.DATALOADER,
        certainty=Certainty.PROVEN,
        culprits=(Culprit(rank=culprit, local_rank=culprit % _PER_NODE, host=host, pid=1000 + culprit),),
        victims=others,
        group=GroupRef(name="tensor", ranks=fold(range(culprit // 8 * 8, culprit // 8 * 8 + 8))),
        op="all_reduce",
        sequence=2,
        where=Where(user=user),
        next_steps=(NextStep(text="show its stack", command=f"unhang stacks --rank {culprit} --native -- sim"),),
    )
    return Diagnosis(
        job="sim",
        verdict=Verdict.HUNG,
        headline=f"Hung: rank {culprit} has not joined all_reduce #2 of group tensor",
        findings=(finding,),
        stack_classes=(StackClass(ranks=others, frames=(user,)),),
        coverage=Coverage(expected=ranks, seen=ranks, answered=ranks, with_stacks=ranks, with_trace=ranks),
        **SIGNED,
    )


def _steps(rank: int) -> list[Step]:
    mine = f"tensor{rank // 8}"
    return [Collective(mine), Collective(WORLD), Stay() if rank == _AWAY else Collective(mine), Collective(WORLD)]


def _node(look: NodeSnapshot, node: int, model: dict[int, RankSnapshot], ranks: int, culprit: int) -> NodeSnapshot:
    own = range(node * _PER_NODE, (node + 1) * _PER_NODE)
    like = [_AWAY if rank == culprit else 8 if culprit in own else 0 for rank in own]
    views = tuple(_renamed(model[one], rank, ranks) for one, rank in zip(like, own, strict=True))
    return look.model_copy(update={"host": f"node{node:04}", "ranks": views})


def _renamed(look: RankSnapshot, rank: int, ranks: int) -> RankSnapshot:
    node = rank // _PER_NODE
    place = {"rank": rank, "local_rank": rank % _PER_NODE, "host": f"node{node:04}", "pid": 1000 + rank}
    assert isinstance(look.recorder, Trace)
    assert isinstance(look.process, Process)
    groups = tuple(
        Group(name=group.name, description="default_pg", members=f"0-{ranks - 1}")
        if group.name == WORLD
        else Group(name=f"tensor{node}", description="tensor", members=f"{node * 8}-{node * 8 + 7}")
        for group in look.recorder.groups
    )
    return look.model_copy(
        update={
            "identity": look.identity.model_copy(update={**place, "world_size": ranks}),
            "process": look.process.model_copy(update={"pid": 1000 + rank}),
            "recorder": look.recorder.model_copy(update={"groups": groups}),
        }
    )
