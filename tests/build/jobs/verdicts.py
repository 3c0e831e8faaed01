"""Verdicts of the real judge on recorded and simulated jobs: every kind that it can say, and what steers a terminal.

Nothing here is worded by hand. Golden files and tests of renderings show what a user can get to see.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from collector.align.expected import Expected, Unanswered
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import Child, Exited, Fds, MountUse, NodeSnapshot, Process, Requests, Socket, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.jobs.dumps import CASES, GLOO, snapshots_of
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, job_without, looks_at_all_stuck, looks_without
from tests.build.jobs.hostile import hostile
from tests.build.jobs.logged import caught, judged_logs, logs_of
from tests.build.jobs.placed import event, gpu, placed, telling, with_rank
from tests.build.jobs.simulated import (
    ALL_REDUCE,
    LOADER,
    PAIRS,
    USER,
    WORLD,
    Collective,
    Job,
    Recv,
    Seen,
    Send,
    Stay,
    Step,
    live_looks,
    training,
)
from tests.build.simulation.looks import Watched
from tests.build.simulation.run import BEGUN_NS
from tests.build.simulation.scenario import Healthy, draw_healthy

SIGNED = {"id": "0195a1c8-7b31-7b3f-a2d6-a3933daff891", "made_at": "2026-01-02T03:04:05.678Z", "took_seconds": 3.4}
"""What the service fills in, which knows a clock."""


def rank_not_joined() -> Diagnosis:
    """The usual one: everything known, a DataLoader's child at the bottom of it."""
    looks = looks_without({2: Seen((USER, LOADER))}, hosts=TWO_NODES)
    shard = "/mnt/nfs/shard-0031.tar"
    worker = Process(
        pid=4790,
        parent_pid=1002,
        state="D",
        name="pt_data_worker",
        wchan="nfs_wait_bit_killable",
        syscall=Syscall(name="read", fd=9, target=shard, file_system="nfs4"),
    )
    reads = (
        Frame("_worker_loop", LOADER.file.replace("dataloader", "_utils/worker"), 349),
        Frame("_MapDatasetFetcher.fetch", LOADER.file.replace("dataloader", "_utils/fetch"), 54),
        Frame("load_shard", "/home/ada/shards.py", 17),
    )
    stacks = Stacks(pid=4790, frames=reads, threads=(Thread(tid=4790, name="MainThread", frames=(0, 1, 2)),))
    mount = MountUse(point="/mnt/nfs", file_system="nfs4", source="nas1:/export", remote=True, files=1)
    looks = with_rank(
        looks,
        2,
        children=(Child(process=worker, stacks=stacks),),
        fds=Fds(total=12, mounts=(mount,)),
        logs=logs_of(["epoch 3", "step 1204: loss 0.71"], rank=2, path="/logs/rank2.err"),
    )
    stalled = event("storage", text="nfs: server nas1 not responding, still trying")
    return diagnose(telling(looks, "b", stalled), Expected(job="sim"))


def chain_of_victims() -> Diagnosis:
    """Two groups, one rank at the root: dumps alone, as Gloo writes them."""
    return of_case("chain_of_victims", GLOO)


def of_case(name: str, folder: Path = CASES) -> Diagnosis:
    """The verdict on a recorded case."""
    return diagnose(snapshots_of(sorted((folder / name).iterdir())), Expected())


def rank_exited() -> Diagnosis:
    """A process that was there and has ended while the others wait."""
    looks = looks_without({1: AWAY}, hosts=TWO_NODES)
    identity = next(rank.identity for look in looks for rank in look.ranks if rank.identity.rank == 1)
    gone = Exited(pid=1001, identity=identity, exit_code=1)
    return diagnose(_ended(looks, 1, gone), Expected(job="sim"))


def _ended(looks: list[NodeSnapshot], rank: int, exited: Exited) -> list[NodeSnapshot]:
    """A rank that was seen in the first look has ended by the second."""
    last = max(look.taken_at_ns or 0 for look in looks)
    return [
        look.model_copy(update={"ranks": tuple(r for r in look.ranks if r.identity.rank != rank), "exited": (exited,)})
        if look.taken_at_ns == last and any(r.identity.rank == rank for r in look.ranks)
        else look
        for look in looks
    ]


def died() -> Diagnosis:
    """One rank was killed, and the launcher ended the others: nobody waits any more."""
    looks = looks_without({1: AWAY}, hosts=TWO_NODES)
    last = max(look.taken_at_ns or 0 for look in looks)
    over = [_over(look) if look.taken_at_ns == last else look for look in looks]
    return diagnose(over, Expected(job="sim"))


def _over(look: NodeSnapshot) -> NodeSnapshot:
    of = [rank.identity for rank in look.ranks]
    gone = (Exited(pid=one.pid or 0, identity=one, signal=9 if one.rank == 1 else 15) for one in of)
    return look.model_copy(update={"ranks": (), "exited": tuple(gone)})


def exception_in_logs() -> Diagnosis:
    """Logs alone: one rank raised, the others' watchdogs lost patience; one node uses another network."""
    traceback = ["Traceback (most recent call last):", '  File "/srv/train.py", line 9, in <module>']
    lines = {rank: [_interface(rank), caught(rank, 12)] for rank in (0, 2, 3)}
    lines[1] = [_interface(1), *traceback, "ValueError: loss is NaN"]
    return judged_logs(lines, world_size=4)


def _interface(rank: int) -> str:
    """NCCL's line on the network that it has chosen: rank 2's is another one."""
    return f"node{rank}:42:51 [0] NCCL INFO NET/Socket : Using [0]eth{int(rank == 2)}:10.0.0.{rank}<0>"


def rank_unreachable() -> Diagnosis:
    """A node is silent: its ranks are named, and nothing is proven."""
    missing = Missing(source="http://b:8471", reason=Reason.TIMED_OUT, detail="no answer within 5.0 s")
    silent = Unanswered(host="b", missing=missing, ranks="2-3")
    looks = [look for look in looks_without({3: AWAY}, hosts=TWO_NODES) if look.host != "b"]
    return diagnose(looks, Expected(job="sim", world_size=4, unanswered=(silent,)))


def rank_stopped() -> Diagnosis:
    """A signal stopped it."""
    return diagnose(looks_without({0: Seen((USER,), state="T")}), Expected(job="sim"))


def rank_missing() -> Diagnosis:
    """A dump that nobody left."""
    return of_case("rank2_dump_absent")


def mismatch_with_majority() -> Diagnosis:
    """One against three."""
    return of_case("rank0_wrong_op")


def mismatch_of_halves() -> Diagnosis:
    """Two against two: nobody is convicted."""
    steps = {rank: training(rank) for rank in range(4)}
    for rank in (0, 1):
        steps[rank][5] = Collective(WORLD, op="all_gather")
    return diagnose(Job(steps, PAIRS).dumps(), Expected())


def order_inversion() -> Diagnosis:
    """Two groups taken in another order by one rank."""
    return of_case("crossed_groups", GLOO)


def order_inversion_of_two() -> Diagnosis:
    """Two ranks, two groups, each its own order: a tie with a cycle."""
    steps = {0: [Collective("a"), Collective("b")], 1: [Collective("b"), Collective("a")]}
    return diagnose(Job(steps, {"a": (0, 1), "b": (0, 1)}).dumps(), Expected())


def p2p_deadlock() -> Diagnosis:
    """A ring of receives."""
    return of_case("p2p_recv_cycle")


def p2p_unmatched() -> Diagnosis:
    """A receive whose send never comes, and a third rank behind it."""
    steps: dict[int, list[Step]] = {0: [Send(1), Stay()], 1: [Recv(0), Send(2), Recv(0)], 2: [Recv(1), Recv(1)], 3: []}
    return diagnose(Job(steps).dumps(), Expected())


def stuck_together() -> Diagnosis:
    """All have joined, and nothing says why nobody completes it."""
    return of_case("all_joined_none_done")


def stuck_on_a_link() -> Diagnosis:
    """All have joined; what one rank has sent to another is not acknowledged, and the kernel knows of the port."""
    ends = {"kind": "tcp", "state": "ESTABLISHED"}
    here = Socket(fd=30, local="10.0.0.1:7", remote="10.0.0.8:9", unsent_bytes=96, retransmits=8, **ends)
    there = Socket(fd=31, local="10.0.0.8:9", remote="10.0.0.1:7", **ends)
    looks = with_rank(looks_at_all_stuck(), 0, fds=Fds(total=1, sockets=(here,)))
    looks = with_rank(looks, 3, fds=Fds(total=1, sockets=(there,)))
    down = event("link_down", interface="mlx5_1", text="mlx5_core 0000:3b:00.0 mlx5_1: Link down")
    return diagnose(telling(looks, "b", down), Expected(job="sim", world_size=4))


def gpu_fault() -> Diagnosis:
    """All have joined; one node's kernel tells of a broken GPU."""
    xid = event("xid", code=79, device="0000:01:00", text="NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.")
    looks = telling(looks_at_all_stuck(), "b", xid, gpus=[gpu(0, 1002), gpu(1, 1003, fault="GPU is lost")])
    return diagnose(looks, Expected(job="sim", world_size=4))


def startup_incomplete() -> Diagnosis:
    """Not all came, and a log counts them."""
    line = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined."
    return judged_logs({0: [line]}, world_size=4)


def straggler() -> Diagnosis:
    """A job that moves: its records show who comes last, and by how much."""
    job = draw_healthy(7, slow_rank=3, load_seconds=0.5)
    return _moving(job, BEGUN_NS + (job.run.ended_ns - BEGUN_NS) * 9 // 10)


def straggler_by_stacks() -> Diagnosis:
    """A job that moves, sampled ten times without records: the others wait for one rank again and again."""
    awake = {rank: Seen(switches_per_second=50.0) for rank in range(4)}
    awake[2] = Seen((USER,), switches_per_second=50.0)
    return diagnose(live_looks(job_without(2), awake, recorder=False, looks=10), Expected(job="sim"))


def held_up() -> Diagnosis:
    """One rank writes a file, which it has open, and the others wait: nobody hangs as far as anybody can tell."""
    looks = looks_without({2: Seen((USER,))}, hosts=TWO_NODES)
    path, times = "/scratch/ada/shard-0007.bin", sorted({look.taken_at_ns or 0 for look in looks})
    fds = [Fds(total=4, files={9: path}, positions={9: at}, writable=frozenset({9})) for at in (0, 24_000_000)]
    first = with_rank([look for look in looks if look.taken_at_ns == times[0]], 2, fds=fds[0])
    rest = with_rank([look for look in looks if look.taken_at_ns != times[0]], 2, fds=fds[1])
    return diagnose([*first, *rest], Expected(job="sim"))


def requests_unanswered() -> Diagnosis:
    """An engine that serves: its workers wait for work, its core is stopped, and a client gets no answer."""
    idle = (Frame("worker", "/srv/engine.py", 70), Frame("get", "/usr/lib/python3.11/multiprocessing/queues.py", 103))
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] * 3 for rank in range(2)}
    looks = live_looks(Job(steps), {rank: Seen(idle) for rank in range(2)})
    unread = Missing(source="stacks", reason=Reason.REFUSED, detail="the process is stopped")
    core = Child(process=Process(pid=900, parent_pid=880, name="EngineCore", state="T"), stacks=unread)
    asked = Requests(unanswered=3, oldest_seconds=41.0, held_by=(900,), servers=(900,))
    return diagnose(with_rank(looks, 0, above=(core,), requests=asked), Expected(job="sim"))


def not_hung() -> Diagnosis:
    """Its records move on between two looks."""
    job = draw_healthy(1)
    return _moving(job, BEGUN_NS + (job.run.ended_ns - BEGUN_NS) // 2)


def _moving(job: Healthy, at_ns: int) -> Diagnosis:
    """The verdict on a job that is looked at at a moment, and three seconds before."""
    watched = Watched(job.run, job.layout, job.recorders)
    return diagnose(watched.looks([at_ns - 3_000_000_000, at_ns]), Expected(job="sim"))


def cannot_tell() -> Diagnosis:
    """Nothing to go by: no right to trace, and no recorder."""
    refused = Missing(source="stacks", reason=Reason.NOT_PERMITTED, detail="the agent lacks CAP_SYS_PTRACE")
    looks = looks_without({}, recorder=False)
    for rank in range(4):
        looks = with_rank(looks, rank, stacks=refused)
    return diagnose(looks, Expected(job="sim"))


def nobody_seen() -> Diagnosis:
    """As little as a verdict can rest on."""
    return diagnose([], Expected())


def two_faults() -> Diagnosis:
    """Two findings that share nothing but the job."""
    groups = {"left": (0, 1), "right": (2, 3)}
    steps: dict[int, list[Step]] = {rank: [Collective("left" if rank < 2 else "right")] * 4 for rank in range(4)}
    steps[1][2:], steps[3][3:] = [Stay()], [Stay()]
    return diagnose(Job(steps, groups).dumps(), Expected())


def thousand_ranks() -> Diagnosis:
    """Large sets are cut, classes are counted, a culprit's class is shown however small it is."""
    world, away = range(1024), range(1, 129, 2)
    steps: dict[int, list[Step]] = {
        rank: [Collective(WORLD), Stay() if rank in away else Collective(WORLD)] for rank in world
    }
    helpers = [Frame(f"helper_{depth}", "/home/ada/train.py", 50 + depth) for depth in range(10)]
    seen = {rank: Seen((USER, *helpers[: rank // 100], ALL_REDUCE)) for rank in world}
    seen |= {rank: Seen((USER, *helpers[: rank % 3])) for rank in away}
    looks = placed(
        live_looks(Job(steps), seen), {f"node{at:03}": fold(world[at * 8 : at * 8 + 8]) for at in range(128)}
    )
    return diagnose(looks, Expected(job="sim"))


def _signed(make: Callable[[], Diagnosis]) -> Callable[[], Diagnosis]:
    """The same verdict each time, made once, with what a service would have filled in."""
    return cache(lambda: make().model_copy(update=SIGNED))


VERDICTS: Mapping[str, Callable[[], Diagnosis]] = {
    make.__name__: _signed(make)
    for make in (
        rank_not_joined,
        chain_of_victims,
        rank_exited,
        died,
        exception_in_logs,
        rank_unreachable,
        rank_stopped,
        rank_missing,
        mismatch_with_majority,
        mismatch_of_halves,
        order_inversion,
        order_inversion_of_two,
        p2p_deadlock,
        p2p_unmatched,
        stuck_together,
        stuck_on_a_link,
        gpu_fault,
        startup_incomplete,
        straggler,
        straggler_by_stacks,
        held_up,
        requests_unanswered,
        not_hung,
        cannot_tell,
        nobody_seen,
        two_faults,
        thousand_ranks,
        hostile,
    )
}
"""Each verdict by its name, made when it is asked for."""
