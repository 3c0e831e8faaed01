"""Processes of a simulated rank: the rank itself and its DataLoader workers, their stacks and their descriptors."""

from functools import cache

from shared.wire.snapshot import Beat, Child, Fds, MountUse, NotableFile, Pipe, Process, Socket, Syscall
from shared.wire.stacks import Frame, Stacks, StackTable, Thread
from tests.bench.simulated import places
from tests.bench.simulated.job import PER_NODE, Role

NOW_NS = 1_111_111_111_111_111_111
"""Stands for the time of the look; whoever sends the answer puts the time of the question there."""

WORKERS = 3
DATA = "/mnt/corpus/tokens/shard-00731.bin"
_COMMAND = (
    "/usr/bin/python3 -u /opt/train/pretrain.py --config-name gpt_175b trainer.nodes={nodes} trainer.devices=8 "
    "model.tensor_parallel=8 model.pipeline_parallel=4 data.root=/mnt/corpus/tokens data.workers=3 "
    "checkpoint.directory=/mnt/checkpoints/gpt-175b-r7 checkpoint.every=500 logging.directory=/mnt/runs/gpt-175b-r7"
)
_FROM_USER = ("do_syscall_64+0x71/0x280", "entry_SYSCALL_64_after_hwframe+0x76/0x7e")
_IN_FUTEX = ("futex_wait_queue+0x6e/0xb0", "__futex_wait+0x15c/0x1d0", "do_futex+0x105/0x260", *_FROM_USER)
_IN_POLL = ("do_poll.constprop.0+0x21f/0x3a0", "do_sys_poll+0x1b8/0x260", "__x64_sys_poll+0xc1/0x180", *_FROM_USER)
_IN_READ = (
    "folio_wait_bit_common+0x131/0x360",
    "filemap_read+0x3a2/0x410",
    "nfs_file_read+0x8c/0xd0 [nfs]",
    "vfs_read+0x293/0x3a0",
    "__x64_sys_pread64+0x98/0xd0",
    *_FROM_USER,
)


def pid_of(rank: int) -> int:
    """The process id of a rank; nodes that start alike have like numbers."""
    return 31_000 + rank % PER_NODE * 7


def process_of(rank: int, nodes: int, role: Role, *, look: int, started_at: float) -> Process:
    """The rank's own process."""
    pid = pid_of(rank)
    cpu = 41_800.0 + rank % 97 + 2.2 * look
    beat = _beat(cpu, switches=9_210_000 + 700 * look, io=88_120_000_000 + (1 << 21) * look, children=7_300.0)
    waits = {"state": "S", "wchan": "futex_wait_queue", "syscall": Syscall(name="futex"), "kernel_stack": _IN_FUTEX}
    works = {"state": "R", "wchan": None, "syscall": Syscall(name="running")}
    return Process.model_validate(
        {
            **(works if role in (Role.PEER, Role.OTHER, Role.MOVING) else waits),  # a stream is waited for by spinning
            "pid": pid,
            "parent_pid": 30_411,
            "name": "pt_main_thread",
            "command": _COMMAND.format(nodes=nodes),
            "threads": 180 + rank % 5,
            "uid": 10_482,
            "rss_bytes": 21_474_836_480 + 4096 * (rank % 8191),
            "started_at": started_at,
            "oom_kills": 0,
            "group_threads": {"pt_nccl_watchdg": 6, "pt_nccl_heartbt": 1},
            "before": beat,
            "after": beat,
        }
    )


def _beat(cpu: float, *, switches: int, io: int, children: float | None = None) -> Beat:
    return Beat(
        at_ns=NOW_NS,
        cpu_seconds=cpu,
        main_cpu_seconds=round(cpu * 0.6, 2),
        main_switches=switches,
        io_bytes=io,
        log_bytes=1_204_882,
        children_cpu_seconds=children,
    )


def stacks_of(pid: int, main: tuple[Frame, ...], *, below: tuple[Frame, ...] = ()) -> Stacks:
    """The threads of a rank; `below` are native frames of the main thread, which make all of it a native look."""
    table = StackTable()
    threads = [_thread(table, pid, "MainThread", (*main, *below))]
    threads += [_thread(table, pid + 1000 + at, name, s) for at, (name, s) in enumerate(places.other_threads())]
    return Stacks(pid=pid, native=bool(below), frames=table.frames, threads=tuple(threads))


def _thread(table: StackTable, tid: int, name: str, stack: tuple[Frame, ...]) -> Thread:
    return Thread(tid=tid, name=name, active=False, holds_gil=False, frames=tuple(map(table.add, stack)))


def main_stack(role: Role, look: int) -> tuple[Frame, ...]:
    """Where the main thread of a rank is."""
    if role is Role.CULPRIT:
        return places.in_step("loading")
    if role is Role.PEER:
        return places.in_step("exhausted")
    if role is Role.MATE:
        return places.in_step("waiting_for_gradients")
    return (
        places.in_step("norm", 480, "prepare_grads")
        if role is Role.OTHER
        else places.in_step("forward", 512 + 40 * (look % 2))
    )


def children_of(rank: int, role: Role, *, started_at: float) -> tuple[Child, ...]:
    """The DataLoader workers. One of the culprit's reads from a file server that does not answer."""
    return tuple(
        _child(pid_of(rank) + 20_000 + 3 * at, pid_of(rank), role is Role.CULPRIT and at == 1, started_at)
        for at in range(WORKERS)
    )


def _child(pid: int, parent: int, reading: bool, started_at: float) -> Child:
    beat = _beat(2_410.25, switches=812_000, io=29_000_000_000)
    blocked = {
        "state": "D",
        "wchan": "folio_wait_bit_common",
        "syscall": Syscall(name="pread64", fd=37, target=DATA, file_system="nfs4"),
        "kernel_stack": _IN_READ,
    }
    idle = {"state": "S", "wchan": "do_poll", "syscall": Syscall(name="poll"), "kernel_stack": _IN_POLL}
    process = Process.model_validate(
        {
            **(blocked if reading else idle),
            "pid": pid,
            "parent_pid": parent,
            "name": "pt_data_worker",
            "command": _COMMAND.format(nodes="…"),
            "threads": 3,
            "uid": 10_482,
            "rss_bytes": 3_221_225_472,
            "started_at": started_at + 300,
            "before": beat,
            "after": beat,
        }
    )
    table = StackTable()
    threads = (
        _thread(table, pid, "MainThread", places.worker(reading=reading)),
        _thread(table, pid + 100, "QueueFeederThread", places.feeder()),
    )
    return Child(process=process, stacks=Stacks(pid=pid, paused=not reading, frames=table.frames, threads=threads))


def fds_of(rank: int, nodes: int) -> Fds:
    """What a rank holds open: connections of NCCL's bootstrap and of the store, pipes of its workers, devices."""
    node = rank // PER_NODE
    return Fds(
        total=412 + rank % 3,
        limit=1_048_576,
        by_kind={"device": 148, "socket": 41, "file": 88, "eventfd": 62, "pipe": 36, "eventpoll": 9, "memfd": 28},
        sockets=tuple(_socket(rank, node, at, nodes) for at in range(30)),
        pipes=tuple(_pipe(rank, at) for at in range(12)),
        devices=_devices(),
        files_by_file_system={"ext4": 52, "nfs4": 31, "tmpfs": 5},
        mounts=_mounts(),
        notable_files=(NotableFile(fd=71, path=f"/tmp/torch_extensions/lock-{rank % 8}", locked=False, deleted=True),),
    )


def address_of(node: int) -> str:
    """The address of a node in the cluster's own network."""
    return f"10.{40 + (node >> 14)}.{node >> 7 & 127}.{node % 128 + 1}"


def _socket(rank: int, node: int, at: int, nodes: int) -> Socket:
    if at == 0:
        local = f"{address_of(node)}:{40_000 + rank % 8}"
        return Socket(
            fd=9, kind="tcp", local=local, remote=f"{address_of(0)}:29500", state="ESTABLISHED", to_store=True
        )
    if at < 6:
        return Socket(
            fd=20 + at, kind="tcp", local=f"{address_of(node)}:{33_000 + rank % 8 * 100 + at}", state="LISTEN"
        )
    peer = (node + (1 << at % 6)) % nodes
    return Socket(
        fd=100 + at,
        kind="tcp",
        local=f"{address_of(node)}:{45_000 + rank % 8 * 100 + at}",
        remote=f"{address_of(peer)}:{36_000 + rank % 8 * 100 + at}",
        state="ESTABLISHED",
    )


def _pipe(rank: int, at: int) -> Pipe:
    child = pid_of(rank) + 20_000 + 3 * (at % WORKERS)
    return Pipe(
        fd=200 + at, direction="read" if at % 2 else "write", other_end=(child,), other_names=("pt_data_worker",)
    )


@cache
def _devices() -> tuple[str, ...]:
    cards = [f"/dev/nvidia{at}" for at in range(8)]
    verbs = [f"/dev/infiniband/uverbs{at}" for at in range(8)]
    return ("/dev/infiniband/rdma_cm", *verbs, "/dev/null", *cards, "/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/urandom")


@cache
def _mounts() -> tuple[MountUse, ...]:
    return (
        MountUse(point="/", file_system="ext4", source="/dev/nvme0n1p2", files=52),
        MountUse(point="/mnt/corpus", file_system="nfs4", source="nas1:/export/corpus", remote=True, files=24),
        MountUse(point="/mnt/checkpoints", file_system="lustre", source="mds1@o2ib:/work", remote=True, files=3),
        MountUse(
            point="/opt/train", file_system="nfs4", source="nas2:/apps", remote=True, files=7, working_directory=True
        ),
    )
