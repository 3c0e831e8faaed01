"""The pure verdict: cpu seconds from snapshots in memory to a diagnosis, on one core.

Every rank is in the world, in a tensor-parallel group of eight and in a data-parallel group, with a window of records
of each; one rank stays away from its last operation. Budget (issue 3): 8,192 ranks, windows of 64, less than 1.5 s.
"""

import gc
import time
from array import array
from statistics import median

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from shared.wire.trace import Group, Signature, State, Trace

TENSOR = 8
WINDOW = 64
SIZES = (1024, 8192)
RUNS = 5

_OPS = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
_NOTHING = Missing(source="files", reason=Reason.NOT_FOUND)


def measure() -> dict[str, str]:
    """Return the table's rows."""
    return {f"pure verdict on {size:,} ranks, windows of {WINDOW}": f"{judge(size):.2f} s cpu" for size in SIZES}


def judge(size: int) -> float:
    """Judge a job of `size` ranks some times. Returns the median; raises AssertionError where the verdict is wrong."""
    snapshots = job_of(size)
    expected = Expected(world_size=size)
    taken = []
    for _ in range(RUNS):
        gc.collect()
        began = time.process_time()
        answer = diagnose(snapshots, expected)
        taken.append(time.process_time() - began)
        assert answer.findings[0].culprit_ranks == (size // 2,), answer.headline
    return median(taken)


def job_of(size: int) -> list[NodeSnapshot]:
    """Snapshots of eight ranks each; rank `size // 2` has not come to its tensor-parallel group's last operation."""
    nodes = range(0, size, TENSOR)
    return [NodeSnapshot(live=False, ranks=tuple(_rank(r, size) for r in range(at, at + TENSOR))) for at in nodes]


def _rank(rank: int, size: int) -> RankSnapshot:
    absent = size // 2
    count = 3 * WINDOW - (2 if rank == absent else 0)
    state = array("q", [State.COMPLETED] * count)
    if rank != absent:
        state[-1] = State.ISSUED
        if rank // TENSOR == absent // TENSOR:
            state[-2] = State.ISSUED
    lane = array("q", (at % 3 for at in range(count)))
    zeros = array("q", [0] * count)
    trace = Trace(
        version="2.10",
        truncated=True,
        groups=_groups(rank, size),
        signatures=tuple(Signature(op, "nccl", ((1024,),), ("Float",), ((1024,),), ("Float",)) for op in _OPS),
        group=lane,
        signature=lane,
        call_site=zeros,
        collective_seq=array("q", (1001 + at // 3 for at in range(count))),
        p2p_seq=zeros,
        op_id=array("q", range(1, count + 1)),
        is_p2p=zeros,
        state=state,
        created_ns=array("q", (1_700_000_000_000_000_000 + at * 10_000_000 + rank for at in range(count))),
        started_ns=zeros,
        completed_ns=zeros,
    )
    identity = Identity(rank=rank, host=f"node-{rank // TENSOR}", pid=1000 + rank)
    return RankSnapshot(
        identity=identity, process=_NOTHING, stacks=_NOTHING, fds=_NOTHING, logs=_NOTHING, recorder=trace
    )


def _groups(rank: int, size: int) -> tuple[Group, ...]:
    first = rank // TENSOR * TENSOR
    world, tensor, data = range(size), range(first, first + TENSOR), range(rank % TENSOR, size, TENSOR)
    return (
        Group(name="0", description="default_pg", members=fold(world)),
        Group(name=f"{1 + first // TENSOR}", description="tp", members=fold(tensor)),
        Group(name=f"{1 + size // TENSOR + rank % TENSOR}", description="dp", members=fold(data)),
    )
