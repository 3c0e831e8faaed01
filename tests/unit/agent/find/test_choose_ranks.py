"""Which processes are ranks, which are children of ranks, and which only started them. On made-up trees."""

from pathlib import Path

import pytest

from agent.find.choose_ranks import FoundRanks, discover
from agent.find.processes import Lister
from agent.proc.procfs import ProcFs
from tests.build.processes.proc_trees import TORCH, add_process, make_tree, slurm, stat_line, torchrun
from tests.build.processes.processes import find


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty machine, but for init."""
    return make_tree(tmp_path / "proc")


def found_in(root: Path) -> FoundRanks:
    """Find who is on a made-up machine."""
    return find(ProcFs(root))


def pids(found: FoundRanks) -> dict[tuple[str | None, int], int | None]:
    """Say which process each rank of each job is."""
    return {(rank.identity.job, rank.identity.rank): rank.identity.pid for rank in found.ranks}


def test_ranks_below_torchrun(root: Path) -> None:
    """torchrun's children are the ranks; torchrun itself is none."""
    add_process(root, 10, 1, {"HOME": "/root"}, command=("python3", "/bin/torchrun"))
    for rank in range(4):
        add_process(root, 20 + rank, 10, torchrun(rank), maps=TORCH)
    assert pids(found_in(root)) == {("night", rank): 20 + rank for rank in range(4)}


def test_workers_of_a_rank_are_its_children(root: Path) -> None:
    """DataLoader workers inherit everything, and their children too."""
    add_process(root, 20, 1, torchrun(0), maps=TORCH)
    add_process(root, 30, 20, torchrun(0), maps=TORCH)
    add_process(root, 31, 20, torchrun(0), maps=TORCH)
    add_process(root, 40, 31, {}, program="/usr/bin/ffmpeg", name="ffmpeg")
    (rank,) = found_in(root).ranks
    assert (rank.stat.pid, set(rank.children)) == (20, {30, 31, 40})


def test_shell_that_waits_for_python_is_not_the_rank(root: Path) -> None:
    """`srun bash -c "... && python train.py"`: the shell has the variables as well."""
    add_process(root, 20, 1, slurm(0), command=("bash", "-c", "python train.py"), program="/bin/bash", name="bash")
    add_process(root, 30, 20, slurm(0), maps=TORCH)
    add_process(root, 40, 30, slurm(0), maps=TORCH)
    (rank,) = found_in(root).ranks
    assert (rank.stat.pid, rank.children) == (30, (40,))


def test_python_wrapper_without_torch_is_not_the_rank(root: Path) -> None:
    """A script that prepares the node and then runs the training as a process of its own."""
    add_process(root, 20, 1, slurm(0))
    add_process(root, 30, 20, slurm(0), maps=TORCH)
    assert pids(found_in(root)) == {("slurm-4242", 0): 30}


def test_program_that_only_loads_python_is_found(root: Path) -> None:
    """An executable of its own name with an interpreter inside."""
    add_process(root, 20, 1, slurm(0), program="/bin/bash", name="bash")
    add_process(root, 30, 20, slurm(0), program="/opt/engine", name="engine", maps=("/usr/lib/libpython3.11.so.1.0",))
    assert pids(found_in(root)) == {("slurm-4242", 0): 30}


def test_no_python_at_all(root: Path) -> None:
    """Then the topmost is the rank: something hangs before Python has begun."""
    add_process(root, 20, 1, slurm(0), program="/bin/bash", name="bash")
    add_process(root, 30, 20, slurm(0), program="/bin/cp", name="cp")
    assert pids(found_in(root)) == {("slurm-4242", 0): 20}


def test_torchrun_under_srun_is_no_rank(root: Path) -> None:
    """The agent that srun started is task 0 of Slurm and rank 0 of nothing."""
    command = ("python3", "-m", "torch.distributed.run", "train.py")
    add_process(root, 10, 1, slurm(0), command=command, maps=TORCH)
    for rank in range(4):
        add_process(root, 20 + rank, 10, {**slurm(0), **torchrun(rank)}, maps=TORCH)
    assert pids(found_in(root)) == {("slurm-4242", rank): 20 + rank for rank in range(4)}


def test_unknown_launcher_is_told_by_its_children(root: Path) -> None:
    """A script that is given RANK for its node and starts ranks of other numbers."""
    node = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "1"}
    add_process(root, 10, 1, node, command=("python3", "spawn.py"), maps=TORCH)
    for rank in range(2):
        own = {**node, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        add_process(root, 20 + rank, 10, own, maps=TORCH)
    assert pids(found_in(root)) == {("n1:1", 0): 20, ("n1:1", 1): 21}


def test_job_that_a_rank_starts_is_a_job_of_its_own(root: Path) -> None:
    """An evaluation with a rendezvous of its own does not make its parent a launcher."""
    add_process(root, 20, 1, torchrun(1), maps=TORCH)
    add_process(root, 30, 20, {**torchrun(0), "TORCHELASTIC_RUN_ID": "evaluation"}, maps=TORCH)
    assert pids(found_in(root)) == {("night", 1): 20, ("evaluation", 0): 30}


def test_two_jobs_side_by_side(root: Path) -> None:
    """Ranks are told apart by their job."""
    for job, first in (("day", 20), ("night", 30)):
        for rank in range(2):
            add_process(root, first + rank, 1, torchrun(rank, run_id=job), maps=TORCH)
    assert len(found_in(root).ranks) == 4


def test_attempts_are_kept_apart(root: Path) -> None:
    """A rank of the attempt before that has not died yet is not the child of the present one."""
    add_process(root, 20, 1, torchrun(0, attempt=0), maps=TORCH)
    add_process(root, 30, 1, torchrun(0, attempt=1), maps=TORCH)
    assert sorted(rank.identity.attempt for rank in found_in(root).ranks) == [0, 1]


def test_kernel_threads_and_ourselves_are_left_out(root: Path) -> None:
    """The kernel runs no ranks, and a look that Slurm started is no task of the job."""
    import os

    add_process(root, 2, 0, slurm(0), name="kthreadd", kernel=True)
    add_process(root, os.getpid(), 1, slurm(1))
    assert not found_in(root).ranks


def test_shell_that_waits_for_us_is_no_rank(root: Path) -> None:
    """`srun --overlap bash -c "unhang snapshot"`: task 1 of that step is not rank 1 of the job."""
    import os

    add_process(root, 20, 1, slurm(1), command=("bash", "-c", "unhang snapshot"), program="/bin/bash", name="bash")
    add_process(root, os.getpid(), 20, slurm(1))
    add_process(root, 30, 1, {**slurm(0), **torchrun(3)}, maps=TORCH)
    assert pids(found_in(root)) == {("slurm-4242", 3): 30}


def test_rank_that_asks_about_itself_stays_one(root: Path) -> None:
    """A training script may start `unhang` when a step takes too long."""
    import os

    add_process(root, 20, 1, slurm(1), maps=TORCH)
    add_process(root, os.getpid(), 20, slurm(1))
    assert pids(found_in(root)) == {("slurm-4242", 1): 20}


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


def test_zombie_elsewhere_is_nobody(root: Path) -> None:
    """A zombie without a rank as its sibling tells nothing."""
    add_process(root, 20, 1, torchrun(0), maps=TORCH)
    add_process(root, 30, 20, state="Z")
    assert found_in(root).exited == ()


def test_identity_has_host_pid_and_start(root: Path) -> None:
    """A pid alone may be reused."""
    add_process(root, 20, 1, torchrun(0), start=12_300)
    (rank,) = found_in(root).ranks
    identity = rank.identity
    assert (identity.host, identity.pid, identity.started_at) == ("here", 20, 1_700_000_123.0)


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
    import shutil

    shutil.rmtree(root / "1")
    (missing,) = found_in(root).missing
    assert missing.reason == "not_permitted"
    assert "hidepid" in missing.detail
