"""Who is a rank, a child and a launcher where process groups are known. On made-up trees."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from agent.find.choose_ranks import FoundRanks, discover
from agent.find.processes import Lister
from agent.find.torch_stores import TorchGroup
from agent.proc.procfs import ProcFs
from tests.build.processes.proc_trees import TORCH, add_process, make_tree, slurm, torchrun


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty machine, but for init."""
    return make_tree(tmp_path / "proc")


def found_in(
    root: Path, groups: Mapping[int, tuple[int, int]], stores: Mapping[int, str] = MappingProxyType({})
) -> FoundRanks:
    """Find who is there, given (rank, size) of the processes that have a group, and where some of them have met."""
    lister = Lister(ProcFs(root))
    known = {
        (pid, pid * 10): TorchGroup((1, {}), 4096, rank, size, stores.get(pid, "n1:5"), True)  # type: ignore[arg-type]
        for pid, (rank, size) in groups.items()
    }
    return discover(lister.listing(groups=known), lister, ProcFs(root), "here")


CHILD = {"LOCAL_RANK": "1", "MASTER_ADDR": "n1", "WORLD_SIZE": "2"}
Processes = list[tuple[int, int, dict[str, str]]]
"""Their ids, their parents', and their variables; all have PyTorch loaded."""

MACHINES: dict[str, tuple[Processes, dict[int, tuple[int, int]], list[tuple[str, int, int, tuple[int, ...]]]]] = {
    "Lightning: the process that the user started is rank 0, and no launcher; the others are not its children": (
        [(20, 1, {}), (21, 20, CHILD), (30, 21, {}), (31, 20, {})],
        {20: (0, 2), 21: (1, 2)},
        [("n1:5", 0, 20, (31,)), ("n1:5", 1, 21, (30,))],
    ),
    "a task of Slurm's that spawns ranks is none, whatever number Slurm has given it": (
        [(20, 1, slurm(0)), (21, 20, slurm(0)), (22, 20, slurm(0))],
        {21: (0, 2), 22: (1, 2)},
        [("n1:5", 0, 21, ()), ("n1:5", 1, 22, ())],
    ),
    "workers are a rank's children, also where their variables are of another job than the one it has joined": (
        [(20, 1, torchrun(3)), (30, 20, torchrun(3))],
        {20: (0, 2)},
        [("n1:5", 0, 20, (30,))],
    ),
    "what a rank has started has a process group: it is a rank as well, and its parent stays one": (
        [(20, 1, torchrun(3)), (30, 20, torchrun(3))],
        {20: (3, 4), 30: (0, 1)},
        [("n1:5", 0, 30, ()), ("night", 3, 20, ())],
    ),
    "a script that has imported PyTorch and waits for the training that it has started is none": (
        [(20, 1, torchrun(1)), (30, 20, torchrun(1))],
        {30: (1, 4)},
        [("night", 1, 30, ())],
    ),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_who_is_a_rank(root: Path, machine: str) -> None:
    """And who its children are."""
    processes, groups, expected = MACHINES[machine]
    for pid, parent, variables in processes:
        add_process(root, pid, parent, variables, maps=TORCH)
    found = found_in(root, groups).ranks
    assert [(r.identity.job, r.identity.rank, r.stat.pid, r.children) for r in found] == expected


def test_process_that_checkpoints_for_a_rank_is_its_child(root: Path) -> None:
    """Each rank has one, and all of them meet in a group that is as large as the job's; a group of one is a job."""
    for rank in range(2):
        add_process(root, 20 + rank, 1, torchrun(rank, run_id="none"), maps=TORCH)
        add_process(root, 30 + rank, 20 + rank, torchrun(rank, run_id="none"), maps=TORCH)
    stores = {20: "n1:1", 21: "n1:1", 30: "n1:7", 31: "n1:7"}
    found = found_in(root, {20: (0, 2), 21: (1, 2), 30: (0, 2), 31: (1, 2)}, stores).ranks
    assert [(rank.identity.job, rank.stat.pid, rank.children) for rank in found] == [
        ("n1:1", 20, (30,)),
        ("n1:1", 21, (31,)),
    ]
    found = found_in(root, {20: (0, 1), 30: (0, 1)}, stores).ranks
    assert {rank.identity.job for rank in found} >= {"n1:1", "n1:7"}


SPAWNED = ("python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)")
TRACKER = ("python3", "-c", "from multiprocessing.resource_tracker import main;main(5)")
NODE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "5"}


@pytest.mark.parametrize(
    ("environment", "world", "beside"), [({}, 3, (22, 40, 23)), (NODE, 3, (22, 40, 23)), ({}, 1, ())]
)
def test_those_beside_a_rank_that_may_be_the_lacking_ones(
    root: Path, environment: dict[str, str], world: int, beside: tuple[int, ...]
) -> None:
    """`mp.spawn` has started them with it. Not its workers, nor what ended, helps, or was started at another time."""
    add_process(root, 20, 1, environment, maps=TORCH)
    for pid, start in ((21, 210), (22, 220), (23, 230), (24, 1000 * 210)):
        named = (*SPAWNED[:2], SPAWNED[2].replace("7", str(pid)))
        add_process(root, pid, 20, environment, command=named, maps=TORCH, start=start)
    add_process(root, 25, 20, environment, command=TRACKER, start=210)
    add_process(root, 26, 20, environment, command=SPAWNED, state="Z", start=210)
    add_process(root, 31, 21, environment, command=SPAWNED, maps=TORCH, start=220)
    add_process(root, 40, 22, environment, command=("g++", "kernel.cu"), program="/usr/bin/g++", start=230)
    (rank,) = found_in(root, {21: (0, world)}).ranks
    assert (rank.stat.pid, rank.identity.world_size) == (21, world)
    assert set(rank.beside) == set(beside)


def test_those_below_rank_0_that_starts_the_others_are_beside_nobody(root: Path) -> None:
    """Lightning: rank 0's workers have its command line, as rank 1 has, which stands beside them."""
    add_process(root, 20, 1, {}, maps=TORCH, start=200)
    for pid in (21, 22):
        add_process(root, pid, 20, {}, maps=TORCH, start=210)
    assert [rank.beside for rank in found_in(root, {20: (0, 3), 21: (1, 3)}).ranks] == [(), ()]
