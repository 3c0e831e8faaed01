"""What is wrong in how a job was started, a table: the spoilt job, what is said of whom, and the near misses."""

import random
from array import array

import pytest

from collector.align.expected import Expected, Neighbour, Unanswered
from collector.checks.all import check_job
from collector.checks.nodes import matches
from collector.judge.verdict import diagnose
from shared.answer.checks import Check, CheckId, Severity
from shared.missing import Missing, Reason
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.setup import Listener, Versions
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.trace import COLUMNS, Group, Signature, Trace
from tests.build.jobs.checked_jobs import NOTHING, STARTED, job, nodes, rank

STRANGER = Listener(address="0.0.0.0:29500", pid=77, name="redis-server")


def checks(snapshots: list[NodeSnapshot], expected: Expected | None = None) -> tuple[Check, ...]:
    """Check a job."""
    return check_job(snapshots, expected or Expected(job="night"))


def everywhere(**more: object) -> list[NodeSnapshot]:
    """A job whose ranks all are spoilt alike."""
    return nodes(*(rank(number, **more) for number in range(4)))  # type: ignore[arg-type]


def versions(**other: str) -> Versions:
    """The usual versions but one."""
    usual = Versions(torch="2.12.1+cu130", cuda="12.8", nccl="2.27.5", python="3.12", driver="570.86.10")
    return usual.model_copy(update=other)


def half(number: int, address: str, *, of: int, **more: object) -> RankSnapshot:
    """A rank of one of two halves that do not know of each other: the second half counts from 0 again."""
    settings = {"WORLD_SIZE": str(of), "MASTER_ADDR": address}
    return rank(number, settings=settings, **more)  # type: ignore[arg-type]


def recorded(at: float) -> Trace:
    """The record of one operation."""
    one = array("q", [0])
    columns = dict.fromkeys(COLUMNS, one) | {"created_ns": array("q", [int(at * 1e9)])}
    return Trace(groups=(Group(name="0"),), signatures=(Signature(op="all_reduce", backend="nccl"),), **columns)


TASK_OF_EIGHT = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "8"}

SPOILT: dict[str, tuple[list[NodeSnapshot], CheckId, Severity, str, str]] = {
    "two processes of one rank": (
        nodes(*(rank(n) for n in range(4)), rank(1, pid=4000)),
        CheckId.DUPLICATE_RANKS,
        Severity.WRONG,
        "1",
        "pid 4000 on node1",
    ),
    "a second step of the same Slurm job": (
        nodes(
            *(rank(n, settings={"SLURM_STEP_ID": "0"}) for n in range(4)),
            rank(0, settings={"SLURM_STEP_ID": "1"}, pid=4000),
        ),
        CheckId.DUPLICATE_RANKS,
        Severity.RISKY,
        "0",
        "different Slurm steps",
    ),
    "world sizes": (
        job(rank(3, settings={"WORLD_SIZE": "8"})),
        CheckId.WORLD_SIZES_DIFFER,
        Severity.WRONG,
        "3",
        "ranks 0-2 on 2 hosts have WORLD_SIZE 4, rank 3 on node2 has WORLD_SIZE 8",
    ),
    "a rank too many": (
        nodes(*(rank(n) for n in range(5))),
        CheckId.RANK_BEYOND_WORLD,
        Severity.WRONG,
        "4",
        "ranks count from 0",
    ),
    "ports": (
        job(rank(2, settings={"MASTER_PORT": "29501"}), rank(3)),
        CheckId.MASTERS_DIFFER,
        Severity.WRONG,
        "2",
        "MASTER_PORT 29501",
    ),
    "addresses": (
        job(rank(2, settings={"MASTER_ADDR": "10.9.9.9"})),
        CheckId.MASTERS_DIFFER,
        Severity.RISKY,
        "2",
        "MASTER_ADDR 10.9.9.9",
    ),
    "two whole jobs under one name": (
        nodes(
            *(half(n, "node1", of=2, host="node1") for n in range(2)),
            *(half(n, "node2", of=2, host="node2", pid=3000 + n) for n in range(2)),
        ),
        CheckId.TWO_RENDEZVOUS,
        Severity.RISKY,
        "0-1",
        "2 whole jobs",
    ),
    "standalone on two nodes": (
        nodes(
            *(half(n, "localhost", of=2, host="node1", command="torchrun --standalone x.py") for n in range(2)),
            *(half(n, "localhost", of=2, host="node2", command="torchrun --standalone x.py") for n in range(2)),
        ),
        CheckId.TWO_RENDEZVOUS,
        Severity.RISKY,
        "0-1",
        "started with --standalone",
    ),
    "parts that cannot find each other": (
        nodes(rank(0), rank(1), *(half(n, "node9", of=4, pid=3000 + n) for n in (1, 2))),
        CheckId.TWO_RENDEZVOUS,
        Severity.WRONG,
        "0-2",
        "cannot find each other",
    ),
    "a rank started anew without the others": (
        job(rank(0, started_at=STARTED + 3600), rank(1, recorder=recorded(STARTED + 90))),
        CheckId.RESTARTED_ALONE,
        Severity.WRONG,
        "0",
        "already communicated",
    ),
    "localhost on several nodes": (
        everywhere(settings={"MASTER_ADDR": "localhost"}),
        CheckId.MASTER_IS_LOCAL,
        Severity.WRONG,
        "2-3",
        "their own machine",
    ),
    "the master's name is loopback elsewhere": (
        job(rank(2, hosts={"node1": ("127.0.1.1",)})),
        CheckId.MASTER_IS_LOCAL,
        Severity.WRONG,
        "2",
        "127.0.1.1",
    ),
    "own name is loopback": (
        job(
            *(rank(n, drop="GLOO_SOCKET_IFNAME") for n in range(3)),
            rank(3, hosts={"node2": ("127.0.1.1",)}, drop="GLOO_SOCKET_IFNAME"),
        ),
        CheckId.HOST_NAME_IS_LOCAL,
        Severity.NOTE,
        "3",
        "loopback",
    ),
    "port taken": (
        job(rank(0, listener=STRANGER)),
        CheckId.PORT_TAKEN,
        Severity.WRONG,
        "0",
        "pid 77 (redis-server)",
    ),
    "one process of many": (
        nodes(rank(0, launcher="env", settings={"WORLD_SIZE": "8"})),
        CheckId.ONE_PROCESS_OF_MANY,
        Severity.RISKY,
        "0",
        "one process of WORLD_SIZE 8",
    ),
    "process group of one": (
        nodes(rank(0, world_size=1, launcher=None, gpus=1, drop="WORLD_SIZE", settings=TASK_OF_EIGHT)),
        CheckId.ONE_PROCESS_OF_MANY,
        Severity.RISKY,
        "0",
        "its process group has 1 rank, and its launcher says that there are 8",
    ),
    "one LOCAL_RANK for all": (
        everywhere(settings={"LOCAL_RANK": "0"}),
        CheckId.DEVICES_SHARED,
        Severity.RISKY,
        "0-1",
        "LOCAL_RANK 0",
    ),
    "one visible device for all": (
        everywhere(settings={"CUDA_VISIBLE_DEVICES": "0"}),
        CheckId.DEVICES_SHARED,
        Severity.RISKY,
        "0-1",
        "CUDA_VISIBLE_DEVICES 0",
    ),
    "devices run out": (
        job(rank(3, settings={"LOCAL_RANK": "2", "CUDA_VISIBLE_DEVICES": "0,1"})),
        CheckId.DEVICE_BEYOND_VISIBLE,
        Severity.WRONG,
        "3",
        "LOCAL_RANK 2",
    ),
    "GPUs idle": (
        nodes(rank(0, settings={"WORLD_SIZE": "1"}, gpus=8)),
        CheckId.GPUS_IDLE,
        Severity.NOTE,
        "0",
        "8 GPUs",
    ),
    "interface that is not there": (
        everywhere(settings={"NCCL_SOCKET_IFNAME": "nonexistent0"}),
        CheckId.INTERFACE_MISSING,
        Severity.WRONG,
        "0-3",
        "nonexistent0",
    ),
    "Gloo's interface on one node": (
        job(*(rank(n, interfaces=("ens3", "lo"), settings={"NCCL_SOCKET_IFNAME": "^lo"}) for n in (2, 3))),
        CheckId.INTERFACE_MISSING,
        Severity.WRONG,
        "2-3",
        "GLOO_SOCKET_IFNAME is eth0",
    ),
    "interfaces of two names": (
        job(rank(2, settings={"NCCL_SOCKET_IFNAME": "ib0"}), rank(3, settings={"NCCL_SOCKET_IFNAME": "ib0"})),
        CheckId.INTERFACES_DIFFER,
        Severity.NOTE,
        "0-3",
        "NCCL_SOCKET_IFNAME ib0",
    ),
    "an interface for some only": (
        job(rank(3, drop="NCCL_SOCKET_IFNAME")),
        CheckId.INTERFACES_DIFFER,
        Severity.RISKY,
        "3",
        "NCCL_SOCKET_IFNAME nothing",
    ),
    "an RDMA device that one node lacks": (
        job(rank(2, hcas=()), rank(3, hcas=())),
        CheckId.HCA_MISSING,
        Severity.RISKY,
        "2-3",
        "mlx5_0",
    ),
    "algorithms": (
        job(rank(1, settings={"NCCL_ALGO": "Tree"})),
        CheckId.SETTINGS_DIFFER,
        Severity.RISKY,
        "1",
        "NCCL_ALGO Tree",
    ),
    "versions of NCCL": (
        job(rank(2, versions=versions(nccl="2.26.2"))),
        CheckId.VERSIONS_DIFFER,
        Severity.WRONG,
        "2",
        "NCCL 2.26.2",
    ),
    "NCCL whose RAS crashes unasked": (
        everywhere(versions=versions(nccl="2.27.7")),
        CheckId.NCCL_KNOWN_FAULT,
        Severity.RISKY,
        "0-3",
        "loaded NCCL 2.27.7",
    ),
    "NCCL that hangs": (
        everywhere(versions=versions(nccl="2.29.2+cuda13.0")),
        CheckId.NCCL_KNOWN_FAULT,
        Severity.RISKY,
        "0-3",
        "loaded NCCL 2.29.2",
    ),
    "NCCL that crashes when RAS is asked": (
        everywhere(versions=versions(nccl="2.27.3")),
        CheckId.NCCL_KNOWN_FAULT,
        Severity.NOTE,
        "0-3",
        "loaded NCCL 2.27.3",
    ),
    "versions of PyTorch": (
        job(rank(2, versions=versions(torch="2.11.0"))),
        CheckId.VERSIONS_DIFFER,
        Severity.RISKY,
        "2",
        "PyTorch 2.11.0",
    ),
    "drivers": (
        job(rank(2, versions=versions(driver="550.54.15"))),
        CheckId.VERSIONS_DIFFER,
        Severity.NOTE,
        "2",
        "550.54.15",
    ),
    "errors ignored": (
        everywhere(settings={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}),
        CheckId.ERRORS_IGNORED,
        Severity.RISKY,
        "0-3",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING is 0",
    ),
    "errors ignored by the old name": (
        everywhere(settings={"NCCL_ASYNC_ERROR_HANDLING": "0"}, drop="TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        CheckId.ERRORS_IGNORED,
        Severity.RISKY,
        "0-3",
        "NCCL_ASYNC_ERROR_HANDLING is 0",
    ),
    "watchdog off": (
        everywhere(settings={"TORCH_NCCL_ENABLE_MONITORING": "0"}),
        CheckId.WATCHDOG_OFF,
        Severity.NOTE,
        "0-3",
        "is 0",
    ),
    "watchdog late": (
        everywhere(settings={"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "86400"}),
        CheckId.WATCHDOG_LATE,
        Severity.NOTE,
        "0-3",
        "86400",
    ),
    "recorder off": (
        everywhere(settings={"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}),
        CheckId.RECORDER_OFF,
        Severity.NOTE,
        "0-3",
        "TORCH_NCCL_TRACE_BUFFER_SIZE is 0",
    ),
    "recorder off by default": (
        everywhere(versions=versions(torch="2.10.0+cu128")),
        CheckId.RECORDER_OFF,
        Severity.NOTE,
        "0-3",
        "off by default",
    ),
    "a day for one operation": (
        everywhere(recorder=Trace(groups=(Group(name="0", description="default_pg", timeout_ms=100 * 3_600_000),))),
        CheckId.TIMEOUT_LONG,
        Severity.RISKY,
        "0-3",
        "group default_pg may take 100 hours",
    ),
    "hours in a group without a name": (
        job(rank(1, recorder=Trace(groups=(Group(name="", timeout_ms=597 * 3_600_000),)))),
        CheckId.TIMEOUT_LONG,
        Severity.RISKY,
        "1",
        "an operation of a group without a name may take 597 hours",
    ),
    "hours for one operation": (
        job(rank(1, recorder=Trace(groups=(Group(name="7", timeout_ms=3 * 3_600_000),)))),
        CheckId.TIMEOUT_LONG,
        Severity.NOTE,
        "1",
        "3 hours",
    ),
    "NCCL says nothing": (everywhere(drop="NCCL_DEBUG"), CheckId.NCCL_SILENT, Severity.NOTE, "0-3", "not set"),
    "each launch is waited for": (
        everywhere(settings={"CUDA_LAUNCH_BLOCKING": "1"}),
        CheckId.LAUNCHES_BLOCK,
        Severity.NOTE,
        "0-3",
        "is 1",
    ),
    "one CPU": (everywhere(cpus=1), CheckId.FEW_CPUS, Severity.NOTE, "0-1", "one CPU"),
    "too many threads": (
        everywhere(settings={"OMP_NUM_THREADS": "64"}),
        CheckId.MANY_THREADS,
        Severity.NOTE,
        "0-1",
        "128 threads for 16 CPUs",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_told(name: str) -> None:
    """The id, how grave it is, on whom, and what was seen; and each says why, and what to change."""
    snapshots, wanted, severity, ranks, seen = SPOILT[name]
    found = [check for check in checks(snapshots) if check.id is wanted]
    assert [(check.severity, check.ranks) for check in found][:1] == [(severity, ranks)], checks(snapshots)
    assert seen in found[0].seen
    assert found[0].why
    assert found[0].change


@pytest.mark.parametrize("name", SPOILT)
def test_nothing_else_is_told(name: str) -> None:
    """One fault is one check: its consequences are not told as further faults."""
    snapshots, wanted, *_ = SPOILT[name]
    assert {check.id for check in checks(snapshots)} <= {wanted} | _GO_TOGETHER.get(wanted, set())


_GO_TOGETHER = {
    CheckId.RANK_BEYOND_WORLD: {CheckId.DEVICES_SHARED},
    CheckId.GPUS_IDLE: {CheckId.RANK_BEYOND_WORLD},
    CheckId.INTERFACE_MISSING: {CheckId.INTERFACES_DIFFER},
    CheckId.TWO_RENDEZVOUS: {CheckId.DEVICES_SHARED},
    CheckId.DUPLICATE_RANKS: {CheckId.DEVICES_SHARED},
}

HEALTHY = {
    "process group of one by itself": nodes(rank(0, world_size=1, launcher=None, gpus=1, settings={"WORLD_SIZE": "1"})),
    "as it should be": job(),
    "one node, nothing set": nodes(*(rank(n, host="node1", drop="NCCL_DEBUG NCCL_SOCKET_IFNAME") for n in (0, 1))),
    "NCCL that crashes in RAS, which is switched off": everywhere(
        versions=versions(nccl="2.27.7"), settings={"NCCL_RAS_ENABLE": "0"}
    ),
    "NCCL beside one that hangs": everywhere(versions=versions(nccl="2.29.3")),
    "a version of NCCL that is none": everywhere(versions=versions(nccl="2.29.2000")),
    "on CPUs alone": everywhere(nccl_loaded=False, gpus=None, hcas=(), settings={"NCCL_SOCKET_IFNAME": "nothere"}),
    "PyTorch not loaded yet": everywhere(versions=Versions(), nccl_loaded=None, gpus=None, drop="GLOO_SOCKET_IFNAME"),
    "one device each": nodes(
        *(rank(n, settings={"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(n % 2)}) for n in range(4))
    ),
    "rank 0's node calls itself localhost": job(
        rank(0, settings={"MASTER_ADDR": "localhost"}), rank(1, settings={"MASTER_ADDR": "127.0.0.1"})
    ),
    "a name with its domain": job(rank(2, settings={"MASTER_ADDR": "node1.cluster.example"})),
    "an address that is the name": job(rank(2, settings={"MASTER_ADDR": "10.0.0.1"})),
    "localhost, and yet they meet": everywhere(
        settings={"MASTER_ADDR": "localhost"}, talks_to=("127.0.0.1:29500", "127.0.0.1:9")
    ),
    "the store is its own": job(
        rank(0, listener=Listener(address="[::]:29500", pid=900, name="torchrun", of_job=True))
    ),
    "a store of some other process that they use": job(
        rank(0, listener=STRANGER), rank(1, talks_to=("10.0.0.1:29500",))
    ),
    "a listener of whom nobody knows": job(rank(0, listener=Listener(address="[::]:29500"))),
    "blocking waits handle errors": everywhere(
        settings={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_BLOCKING_WAIT": "1"}
    ),
    "interfaces that are left out": everywhere(settings={"NCCL_SOCKET_IFNAME": "^docker0,lo"}),
    "an hour for a group of checkpoints": everywhere(
        recorder=Trace(groups=(Group(name="1", timeout_ms=2 * 3_600_000), Group(name="2")))
    ),
    "what init_rpc gives its own group": everywhere(recorder=Trace(groups=(Group(name="", timeout_ms=2**31 - 1),))),
    "a rank that came late, and was waited for": job(
        rank(0, started_at=STARTED + 500), rank(1, recorder=recorded(STARTED + 510))
    ),
    "a world formed anew with the late rank": job(
        rank(0, started_at=STARTED + 3600, recorder=recorded(STARTED + 3700)), rank(1, recorder=recorded(STARTED + 90))
    ),
    "no RDMA anywhere": everywhere(hcas=()),
    "an older attempt is not this job": nodes(*(rank(n, attempt=1) for n in range(4)), rank(0, world_size=9, pid=9)),
    "settings that nobody could read": [
        each.model_copy(update={"ranks": tuple(r.model_copy(update={"setup": NOTHING}) for r in each.ranks)})
        for each in job()
    ],
    "one of many has only just begun": nodes(
        rank(0, launcher="env", settings={"WORLD_SIZE": "8"}, started_at=STARTED + 590)
    ),
    "two steps of a Slurm job": nodes(
        *(rank(n, settings={"SLURM_STEP_ID": "0"}) for n in range(4)),
        *(rank(n, settings={"SLURM_STEP_ID": "1", "WORLD_SIZE": "8"}, host="node3") for n in range(4, 6)),
    ),
    "nobody": [],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_innocent_settings_are_passed_over(name: str) -> None:
    """Near misses, each of them found in jobs that run well."""
    assert checks(HEALTHY[name]) == ()


def with_gpus(snapshots: list[NodeSnapshot], *pids: int) -> list[NodeSnapshot]:
    """Let the driver of each node tell which processes compute on its GPUs, one each."""
    gpus = Gpus(gpus=tuple(Gpu(index=n, processes=(GpuProcess(pid=pid),)) for n, pid in enumerate(pids)))
    return [each.model_copy(update={"gpus": gpus}) for each in snapshots]


def test_drivers_know_better_than_variables() -> None:
    """Ranks that choose their device otherwise, and one process that drives all of them."""
    alike = nodes(*(rank(n, host="node1", settings={"LOCAL_RANK": "0", "WORLD_SIZE": "2"}) for n in (0, 1)))
    assert [check.id for check in checks(alike)] == [CheckId.DEVICES_SHARED]
    assert checks(with_gpus(alike, 1000, 1001)) == ()
    lone = nodes(rank(0, settings={"WORLD_SIZE": "1"}, gpus=2))
    assert [check.id for check in checks(with_gpus(lone, 1000))] == [CheckId.GPUS_IDLE]
    assert checks(with_gpus(lone, 1000, 1000)) == ()


def test_other_half_of_a_job() -> None:
    """Two jobs that began together and make up one world; not one that began later, or has other ranks."""
    mine = nodes(rank(0), rank(1))
    other = Neighbour(job="10.0.0.9:29501", world_size=4, ranks="2-3", hosts=("node2",), started_at=STARTED + 5)
    (found,) = checks(mine, Expected(job="night", neighbours=(other,)))
    assert (found.id, found.severity) == (CheckId.TWO_RENDEZVOUS, Severity.WRONG)
    assert "10.0.0.9:29501 on node2" in found.seen
    for harmless in ({"ranks": "1-3"}, {"ranks": "3"}, {"started_at": STARTED + 4000}, {"world_size": 8}):
        near = other.model_copy(update=harmless)
        assert checks(mine, Expected(job="night", neighbours=(near,))) == ()


def test_one_process_of_many_is_not_told_where_nodes_are_silent() -> None:
    """The other ranks may be where nobody could look."""
    snapshots = SPOILT["one process of many"][0]
    silent = Unanswered(host="node2", missing=Missing(source="agent", reason=Reason.UNREACHABLE))
    assert checks(snapshots, Expected(job="night", unanswered=(silent,))) == ()


@pytest.mark.parametrize("name", SPOILT)
def test_order_changes_nothing(name: str) -> None:
    """Snapshots and ranks in any order, and in one snapshot or many."""
    snapshots = SPOILT[name][0]
    split = [each.model_copy(update={"ranks": (rank,)}) for each in snapshots for rank in each.ranks]
    for seed in range(3):
        random.Random(seed).shuffle(split)
        assert checks(split) == checks(snapshots)


def test_part_of_the_diagnosis() -> None:
    """A verdict carries them, the worst first."""
    found = diagnose(SPOILT["world sizes"][0], Expected(job="night")).checks
    assert [check.id for check in found] == [CheckId.WORLD_SIZES_DIFFER]


def test_hostile_values_are_cut() -> None:
    """A variable of kilobytes becomes a short quotation, and many different ones a few."""
    long = nodes(*(rank(n % 4, pid=n, settings={"NCCL_ALGO": f"{n}" * 5000}) for n in range(200)))
    assert all(len(check.seen) < 2000 for check in checks(long))


@pytest.mark.parametrize(
    ("wanted", "whole", "fits"),
    [
        ("eth", False, True),
        ("=eth", False, False),
        ("=eth0", False, True),
        ("ib,eth0", True, True),
        ("eth", True, False),
        ("^eth0", False, True),
        ("", False, True),
        ("mlx5_0:1", False, False),
    ],
)
def test_interface_lists(wanted: str, whole: bool, fits: bool) -> None:
    """Prefixes, whole names, exclusions."""
    assert matches(wanted, ("eth0", "lo"), whole=whole) is fits
