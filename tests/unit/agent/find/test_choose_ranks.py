"""Which processes are ranks, which are children of ranks, and which only started them. On made-up trees."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.find.choose_ranks import FoundRanks, discover
from agent.find.processes import Lister
from agent.proc.procfs import ProcFs
from tests.build.processes.proc_trees import TORCH, add_process, make_tree, slurm, stat_line, torchrun

OURS = 5_000_000
"""Who looks: in a container these tests may have any of the numbers below."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine, but for init."""
    monkeypatch.setattr("agent.find.processes.own_pids", lambda: frozenset({OURS}))
    return make_tree(tmp_path / "proc")


def found_in(root: Path) -> FoundRanks:
    """Find who is on a made-up machine."""
    procfs = ProcFs(root)
    lister = Lister(procfs, own_pid=OURS)
    return discover(lister.listing(), lister, procfs, "here")


def pids(found: FoundRanks) -> dict[tuple[str | None, int], int | None]:
    """Say which process each rank of each job is."""
    return {(rank.identity.job, rank.identity.rank): rank.identity.pid for rank in found.ranks}


SHELL = {"command": ("bash", "-c", "python train.py"), "program": "/bin/bash", "name": "bash"}
ELASTIC = {"command": ("python3", "-m", "torch.distributed.run", "train.py"), "maps": TORCH}
ENGINE = {"program": "/opt/engine", "name": "engine", "maps": ("/usr/lib/libpython3.11.so.1.0",)}
NODE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "1"}
RUNS_TORCH = {"maps": TORCH}
JOBS = (("day", 20), ("night", 30))

Process = tuple[int, int, dict[str, str], dict[str, Any]]
"""Its id, its parent's, its variables, and how it runs."""

MACHINES: dict[str, tuple[list[Process], dict[tuple[str, int], int]]] = {
    "torchrun's children are the ranks, and torchrun itself is none": (
        [(10, 1, {"HOME": "/root"}, {"command": ("python3", "/bin/torchrun")})]
        + [(20 + rank, 10, torchrun(rank), RUNS_TORCH) for rank in range(4)],
        {("night", rank): 20 + rank for rank in range(4)},
    ),
    "a script prepares the node and then runs the training as a process of its own": (
        [(20, 1, slurm(0), {}), (30, 20, slurm(0), RUNS_TORCH)],
        {("slurm-4242", 0): 30},
    ),
    "an executable of its own name with an interpreter inside": (
        [(20, 1, slurm(0), SHELL), (30, 20, slurm(0), ENGINE)],
        {("slurm-4242", 0): 30},
    ),
    "no Python at all: something hangs before it has begun": (
        [(20, 1, slurm(0), SHELL), (30, 20, slurm(0), {"program": "/bin/cp", "name": "cp"})],
        {("slurm-4242", 0): 20},
    ),
    "torchrun under srun is task 0 of Slurm and rank 0 of nothing": (
        [(10, 1, slurm(0), ELASTIC)]
        + [(20 + rank, 10, {**slurm(0), **torchrun(rank)}, RUNS_TORCH) for rank in range(4)],
        {("slurm-4242", rank): 20 + rank for rank in range(4)},
    ),
    "a script that is given RANK for its node starts ranks of other numbers": (
        [(10, 1, NODE, {"command": ("python3", "spawn.py"), "maps": TORCH})]
        + [(20 + rank, 10, {**NODE, "RANK": str(rank), "LOCAL_RANK": str(rank)}, RUNS_TORCH) for rank in range(2)],
        {("n1:1", 0): 20, ("n1:1", 1): 21},
    ),
    "an evaluation with a rendezvous of its own does not make its parent a launcher": (
        [(20, 1, torchrun(1), RUNS_TORCH), (30, 20, torchrun(0, run_id="evaluation"), RUNS_TORCH)],
        {("night", 1): 20, ("evaluation", 0): 30},
    ),
    "ranks are told apart by their job": (
        [(first + rank, 1, torchrun(rank, run_id=job), RUNS_TORCH) for job, first in JOBS for rank in range(2)],
        {(job, rank): first + rank for job, first in JOBS for rank in range(2)},
    ),
    "the kernel runs no ranks, and a look that Slurm started is no task of the job": (
        [(2, 0, slurm(0), {"name": "kthreadd", "kernel": True}), (OURS, 1, slurm(1), {})],
        {},
    ),
    "a shell that waits for `unhang snapshot` under `srun --overlap` is not rank 1 of the job": (
        [(20, 1, slurm(1), SHELL), (OURS, 20, slurm(1), {}), (30, 1, slurm(0) | torchrun(3), RUNS_TORCH)],
        {("slurm-4242", 3): 30},
    ),
    "a training script that starts `unhang` when a step takes too long stays a rank": (
        [(20, 1, slurm(1), RUNS_TORCH), (OURS, 20, slurm(1), {})],
        {("slurm-4242", 1): 20},
    ),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_who_is_a_rank(root: Path, machine: str) -> None:
    """And which of several processes it is."""
    processes, expected = MACHINES[machine]
    for pid, parent, variables, about in processes:
        add_process(root, pid, parent, variables, **about)
    assert pids(found_in(root)) == expected


def test_workers_of_a_rank_are_its_children(root: Path) -> None:
    """DataLoader workers inherit everything, and their children too; a shell above that waits is not the rank."""
    add_process(root, 10, 1, slurm(0), **SHELL)
    for pid, parent in ((20, 10), (30, 20), (31, 20)):
        add_process(root, pid, parent, slurm(0), maps=TORCH)
    add_process(root, 40, 31, {}, program="/usr/bin/ffmpeg", name="ffmpeg")
    (rank,) = found_in(root).ranks
    assert (rank.stat.pid, set(rank.children)) == (20, {30, 31, 40})


def test_attempts_are_kept_apart(root: Path) -> None:
    """A rank of the attempt before that has not died yet is not the child of the present one."""
    add_process(root, 20, 1, torchrun(0, attempt=0), maps=TORCH)
    add_process(root, 30, 1, torchrun(0, attempt=1), maps=TORCH)
    assert sorted(rank.identity.attempt for rank in found_in(root).ranks) == [0, 1]


@pytest.mark.parametrize(
    ("status", "exit_code", "signal"), [(0, 0, None), (256, 1, None), (9, None, 9), (139, None, 11)]
)
def test_zombie_beside_ranks_has_exited(root: Path, status: int, exit_code: int | None, signal: int | None) -> None:
    """It says how, as long as nobody has reaped it."""
    add_process(root, 20, 1, torchrun(0), maps=TORCH)
    add_process(root, 21, 1, state="Z", exit_status=status)
    add_process(root, 22, 1, state="Z", name="git")
    (exited,) = found_in(root).exited
    assert (exited.pid, exited.exit_code, exited.signal) == (21, exit_code, signal)
    assert exited.sibling_jobs == ("night",)


def test_identity_has_host_pid_and_start(root: Path) -> None:
    """A pid alone may be reused. A zombie without a rank as its sibling tells nothing."""
    add_process(root, 20, 1, torchrun(0), start=12_300)
    add_process(root, 30, 20, state="Z")
    found = found_in(root)
    identity = found.ranks[0].identity
    assert (identity.host, identity.pid, identity.started_at) == ("here", 20, 1_700_000_123.0)
    assert found.exited == ()


@pytest.mark.parametrize("garbage", [b"", b"=", b"\0" * 5000, b"RANK", b"RANK=1" * 100_000, b"\xff\xfe=\0RANK=\xff\0"])
def test_environment_that_makes_no_sense(root: Path, garbage: bytes) -> None:
    """It belongs to the user, who may write anything into it."""
    add_process(root, 20, 1, {})
    (root / "20" / "environ").write_bytes(garbage)
    assert found_in(root).ranks == ()


def test_huge_environment_keeps_only_what_is_on_the_list(root: Path) -> None:
    """A variable behind thousands of others, and a value of half a megabyte."""
    environment = {f"X{i}": "y" * 50 for i in range(3000)}
    add_process(root, 20, 1, {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n" * 500_000, **environment})
    (rank,) = found_in(root).ranks
    assert len(rank.environment["MASTER_ADDR"]) == 4096
    assert rank.environment.keys() == {"RANK", "WORLD_SIZE", "MASTER_ADDR"}


def test_process_that_ends_while_it_is_read(root: Path) -> None:
    """Half a process is no process."""
    add_process(root, 20, 1, torchrun(0))
    (root / "20" / "stat").write_text("")
    add_process(root, 21, 1)
    assert found_in(root).ranks == ()


def test_quick_listing_finds_what_is_new(root: Path) -> None:
    """What was no rank and runs no Python is not read again, until somebody asks."""
    procfs = ProcFs(root)
    lister = Lister(procfs)
    add_process(root, 20, 1, torchrun(0), maps=TORCH)
    add_process(root, 30, 1, {}, program="/bin/sh", name="sh")
    lister.listing()
    add_process(root, 21, 1, torchrun(1), maps=TORCH)
    (root / "30" / "environ").write_bytes(b"RANK=7\0WORLD_SIZE=8\0")
    (root / "30" / "stat").write_text(stat_line(30, 1, "python3", "S", 300).replace("2147221504", "12345"))
    found = discover(lister.listing(quick=True), lister, procfs, "here")
    assert [rank.identity.rank for rank in found.ranks] == [0, 1]
    found = discover(lister.listing(), lister, procfs, "here")
    assert sorted(rank.identity.rank for rank in found.ranks) == [0, 1, 7]


def test_machine_that_hides_other_users_processes(root: Path) -> None:
    """An empty answer says why."""
    shutil.rmtree(root / "1")
    (missing,) = found_in(root).missing
    assert missing.reason == "not_permitted"
    assert "hidepid" in missing.detail
