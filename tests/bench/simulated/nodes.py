"""What an agent of the simulated job would answer: everything of one node, in the project's own types."""

from functools import cache

from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.log_events import EventKind, LogEvent, LogFile, Logs
from shared.wire.setup import Setup, Versions
from shared.wire.snapshot import Identity, NodeSnapshot, RankList, RankSnapshot
from tests.bench.simulated import places
from tests.bench.simulated.job import NAME, PER_NODE, SECONDS_BEFORE, Role, SimulatedJob, host_of
from tests.bench.simulated.processes import (
    NOW_NS,
    address_of,
    children_of,
    fds_of,
    main_stack,
    pid_of,
    process_of,
    stacks_of,
)
from tests.bench.simulated.records import trace_of

IDLE_SECONDS = 111.111
"""Stands for how long a hung rank has been still; whoever sends the answer puts in what it is by then."""

_AGE_SECONDS = 36_000.0


class SimulatedNode:
    """One node of a job that stopped, or was seen first, at `stopped_ns`."""

    def __init__(self, job: SimulatedJob, number: int, *, stopped_ns: int) -> None:
        self._job = job
        self._number = number
        self._stopped_ns = stopped_ns
        self._started_at = round(stopped_ns / 1e9 - _AGE_SECONDS + number % 50 / 10, 2)

    @property
    def ranks(self) -> range:
        """The ranks that run here."""
        return range(self._number * PER_NODE, (self._number + 1) * PER_NODE)

    def rank_list(self) -> RankList:
        """The answer to `GET /v1/ranks`."""
        return RankList(host=host_of(self._number), ranks=tuple(map(self._identity, self.ranks)))

    def snapshot(self, look: int = 0) -> NodeSnapshot:
        """The answer to the look of this number at all ranks; a job that hangs looks the same in all."""
        ranks = tuple(self._rank(rank, look) for rank in self.ranks)
        return self._snapshot(ranks).model_copy(update={"kernel_events": _kernel_events(), "gpus": _gpus()})

    def snapshot_of(self, pids: frozenset[int], look: int = 0, *, native: bool = False) -> NodeSnapshot:
        """The answer to a look at a few processes, with native frames or without."""
        chosen = [self._rank(rank, look, native=native) for rank in self.ranks if pid_of(rank) in pids]
        return self._snapshot(tuple(chosen)).model_copy(update={"whole": False})

    def _snapshot(self, ranks: tuple[RankSnapshot, ...]) -> NodeSnapshot:
        return NodeSnapshot(host=host_of(self._number), taken_at_ns=NOW_NS, took_seconds=0.2113, ranks=ranks)

    def _identity(self, rank: int) -> Identity:
        return Identity(
            job=NAME,
            rank=rank,
            local_rank=rank % PER_NODE,
            group_rank=self._number,
            world_size=self._job.world,
            local_world_size=PER_NODE,
            launcher="torchrun",
            host=host_of(self._number),
            pid=pid_of(rank),
            started_at=self._started_at,
            gpu=str(rank % PER_NODE),
        )

    def _rank(self, rank: int, look: int, *, native: bool = False) -> RankSnapshot:
        job, role = self._job, self._job.role(rank)
        below = places.below_the_handle() if native else ()
        moved = look if job.moving else 0
        return RankSnapshot(
            identity=self._identity(rank),
            looked_at_ns=NOW_NS,
            process=process_of(rank, job.nodes, role, look=moved, started_at=self._started_at),
            stacks=stacks_of(pid_of(rank), main_stack(role, moved), below=below),
            children=children_of(rank, role, started_at=self._started_at),
            fds=fds_of(rank, job.nodes),
            logs=_logs(rank, warned=rank % 512 == 77),
            recorder=trace_of(job, rank, stopped_ns=self._stopped_ns, look=look),
            setup=_setup(rank, self._number, job.world),
            idle_for_seconds=0.4 if role is Role.MOVING else IDLE_SECONDS,
        )


def stopped_before(now_ns: int) -> int:
    """When the hung job stopped, if the simulation begins now."""
    return now_ns - round(SECONDS_BEFORE * 1e9)


def _logs(rank: int, *, warned: bool) -> Logs:
    path = f"/mnt/runs/gpt-175b-r7/logs/{NAME}/attempt_0/{rank % PER_NODE}/stderr.log"
    interface = LogEvent(
        kind=EventKind.INTERFACE,
        rank=rank,
        text=f"{host_of(rank // PER_NODE)}:{pid_of(rank)}:{pid_of(rank)} [{rank % 8}] NCCL INFO NET/IB : Using "
        "[0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB/SHARP [2]mlx5_2:1/IB/SHARP [3]mlx5_3:1/IB/SHARP; OOB eth0",
        fields={"net": "IB", "devices": "mlx5_0,mlx5_1,mlx5_2,mlx5_3", "oob": "eth0"},
        path=path,
    )
    slow = LogEvent(
        kind=EventKind.RENDEZVOUS,
        rank=rank,
        text=f"[rank{rank}]:[W1121 09:10:11.123456789 TCPStore.cpp:340] [c10d] waited 4 s for the store of "
        f"{address_of(0)}:29500",
        path=path,
    )
    return Logs(
        files=(LogFile(path=path, size_bytes=1_204_882, modified_at=1_790_000_000.25),),
        events=(interface, slow) if warned else (interface,),
    )


def _setup(rank: int, node: int, world: int) -> Setup:
    return Setup(
        variables={
            **places.VARIABLES,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % PER_NODE),
            "GROUP_RANK": str(node),
            "WORLD_SIZE": str(world),
            "GROUP_WORLD_SIZE": str(world // PER_NODE),
            "SLURM_NNODES": str(world // PER_NODE),
            "SLURM_NTASKS": str(world // PER_NODE),
            "SLURM_NODEID": str(node),
            "HOSTNAME": host_of(node),
        },
        launcher="/usr/bin/python3 -m torch.distributed.run --nnodes … --nproc-per-node 8 --rdzv-backend c10d "
        f"--rdzv-endpoint {address_of(0)}:29500 --rdzv-id {NAME} --max-restarts 0 /opt/train/pretrain.py",
        versions=_VERSIONS,
        nccl_loaded=True,
        interfaces=("eth0", *(f"ib{at}" for at in range(8)), "lo"),
        hcas=tuple(f"mlx5_{at}" for at in range(8)),
        gpus=8,
        cpus=208,
        hosts={"node0001": (address_of(0),), host_of(node): (address_of(node),)},
    )


_VERSIONS = Versions(torch="2.8.0+cu128", cuda="12.8", nccl="2.27.5", python="3.12.3", driver="560.35.03")


@cache
def _kernel_events() -> KernelEvents:
    return KernelEvents(since=1_789_400_000.5, events=tuple(map(_link_up, range(PER_NODE))))


def _link_up(port: int) -> KernelEvent:
    """A line from when the node was started."""
    text = f"mlx5_core 0000:{0x18 + 16 * port:02x}:00.0 ib{port}: Link up"
    at = 1_789_400_031.25 + port
    return KernelEvent(kind=KernelEventKind.LINK_UP, at=at, last_at=at, text=text, interface=f"ib{port}")


@cache
def _gpus() -> Gpus:
    return Gpus(driver=_VERSIONS.driver, gpus=tuple(map(_gpu, range(PER_NODE))))


def _gpu(index: int) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index:08x}-6a21-4c0d-b1e7-9f20c4d35e11",
        name="NVIDIA H200",
        device=f"0000:{0x1B + 16 * index:02x}:00.0",
        utilization_percent=100,
        memory_used_bytes=118_111_600_640,
        memory_total_bytes=150_754_820_096,
        power_watts=231.5,
        power_limit_watts=700.0,
        temperature_celsius=44,
        sm_clock_mhz=1980,
        sm_clock_max_mhz=1980,
        ecc_uncorrected=0,
        rows_pending=False,
        rows_failed=False,
        nvlinks_up=18,
        nvlinks_down=0,
        processes=(GpuProcess(pid=pid_of(index), used_bytes=117_037_858_816),),
    )
