"""Jobs of which nothing is left but logs: lines made up in the grammar of torch, Gloo and NCCL, read as files are."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.answer.diagnosis import Diagnosis
from shared.formats.logs.nccl_calls import find_communicators
from shared.formats.logs.parse import find_events
from shared.missing import Missing, Reason
from shared.wire.log_events import LogFile, Logs
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from tests.build.jobs.judged import judged

NOTHING = Missing(source="files", reason=Reason.NOT_FOUND)


def logs_of(lines: Sequence[str], *, rank: int | None, path: str = "train.log") -> Logs:
    """What is found in a file of one rank, or of several for None."""
    return Logs(
        files=(LogFile(path=path, lines=tuple(lines)),),
        events=find_events(lines, path=path, rank=rank),
        communicators=tuple(c.model_copy(update={"rank": rank}) for c in find_communicators(lines)),
    )


def bare(
    rank: int, lines: Sequence[str] = (), *, world_size: int | None = None, host: str | None = None
) -> RankSnapshot:
    """A rank of which there is a log, or nothing but its name."""
    return RankSnapshot(
        identity=Identity(rank=rank, world_size=world_size, host=host),
        process=NOTHING,
        stacks=NOTHING,
        fds=NOTHING,
        logs=logs_of(lines, rank=rank, path=f"rank{rank}.log"),
        recorder=NOTHING,
    )


def snapshot(
    lines: Mapping[int, Sequence[str]],
    *,
    common: Sequence[str] = (),
    world_size: int | None = None,
    hosts: Mapping[int, str] | None = None,
) -> NodeSnapshot:
    """Logs of ranks, and the lines of a file into which all write."""
    hosts = hosts or {}
    ranks = tuple(bare(rank, said, world_size=world_size, host=hosts.get(rank)) for rank, said in lines.items())
    return NodeSnapshot(live=False, ranks=ranks, logs=logs_of(common, rank=None) if common else None)


def judged_logs(lines: Mapping[int, Sequence[str]], **how: Any) -> Diagnosis:
    """The verdict on logs; `how` as for `snapshot`."""
    return judged([snapshot(lines, **how)])


def caught(
    rank: int, sequence: int, op: str = "ALLREDUCE", sizes: tuple[int, int] = (64, 64), group_rank: int | None = None
) -> str:
    """The line that tells in which operation a rank's watchdog lost patience."""
    place = rank if group_rank is None else group_rank
    return (
        f"[rank{rank}]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] [Rank {place}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={sequence}, OpType={op}, NumelIn={sizes[0]}, NumelOut={sizes[1]}, "
        "Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
    )


def status(
    rank: int,
    sequence: int,
    enqueued: int,
    group: str = "0(default_pg)",
    group_id: int = 0,
    group_rank: int | None = None,
) -> str:
    """The line that tells how far a rank has got in the group in which it timed out."""
    place = rank if group_rank is None else group_rank
    return (
        f"[rank{rank}]:[E1121 09:10:11.2 ProcessGroupNCCL.cpp:2268] [PG ID {group_id} PG GUID {group} Rank {place}]  "
        f"failure detected by watchdog at work sequence id: {sequence} PG status: last enqueued work: {enqueued}, "
        f"last completed work: {sequence - 1}"
    )


def signal(rank: int, source: int, enqueued: int, group: str = "0(default_pg)", group_rank: int | None = None) -> str:
    """The line of a rank that another one's watchdog told to dump."""
    place = rank if group_rank is None else group_rank
    return (
        f"[rank{rank}]:[E1121 09:10:12.3 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID {group} Rank {place}] Received a "
        f"dump signal due to a collective timeout from  rank {source} and we will try our best to dump the debug info. "
        f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}."
    )


def fingerprint(
    rank: int, shape: str, other: int, other_shape: str, op: str = "ALLREDUCE", other_op: str = "ALLREDUCE"
) -> str:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL has a rank say of itself and of its counterpart."""
    return (
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=7, OpType={op}, TensorShape=[{shape}], TensorDtypes=Float, "
        f"TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)), but Rank {other} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=0, OpType={other_op}, TensorShape=[{other_shape}], TensorDtypes=Float)."
    )


def call(
    pid: int, number: int, op: str = "AllReduce", count: int = 64, host: str = "node1", size: int = 4, root: int = 0
) -> str:
    """What NCCL says of a call on the world's communicator."""
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO {op}: opCount {number:x} sendbuff 0x7f00 recvbuff 0x7f00 count {count} "
        f"datatype 7 op 0 root {root} comm 0x55d{pid} [nranks={size}] stream 0x55e0"
    )


def init(pid: int, rank: int, host: str = "node1", size: int = 4) -> str:
    """What NCCL says of the world's communicator when it is made."""
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55d{pid} rank {rank} nranks {size} cudaDev 0 "
        "nvmlDev 0 busId 30 commId 0x9f2c - Init START"
    )
