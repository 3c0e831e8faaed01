"""Whose variables make a rank, what its job is called, and which command lines are launchers'."""

import pytest

from agent.find.launchers import NAMES, identify, is_launcher, job_name
from tests.build.processes.proc_trees import slurm, torchrun


def test_rank_of_torchrun() -> None:
    """torchrun tells everything; zero is a number like any other."""
    found, zero = identify(torchrun(5, world_size=8, attempt=2)), identify(torchrun(0))
    assert found is not None and zero is not None
    assert (found.job, found.rank, found.local_rank, found.group_rank) == ("night", 5, 1, 1)
    assert (found.world_size, found.local_world_size, found.attempt, found.launcher) == (8, 4, 2, "torchrun")
    assert (zero.rank, zero.local_rank, zero.group_rank) == (0, 0, 0)


@pytest.mark.parametrize(
    ("environment", "launcher", "job", "rank", "world_size"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "n1", "MASTER_PORT": "12"}, "env", "n1:12", 3, 8),
        ({"RANK": "3", "MASTER_ADDR": "n1"}, "env", "n1:29500", 3, None),
        (slurm(2), "slurm", "slurm-4242", 2, 4),
        ({**slurm(0), **torchrun(6)}, "torchrun", "slurm-4242", 6, 4),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "PMIX_NAMESPACE": "prte-7",
                "PMIX_RANK": "1",
            },
            "openmpi",
            "mpi-prte-7",
            1,
            2,
        ),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "PBS_JOBID": "7.head"}, "pmi", "mpi-7.head", 0, 2),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}, "mvapich", "unnamed", 0, 2),
    ],
)
def test_ranks_of_other_launchers(
    environment: dict[str, str], launcher: str, job: str, rank: int, world_size: int | None
) -> None:
    """Each launcher has its own names for the same things."""
    found = identify(environment)
    assert found is not None
    assert (found.launcher, found.job, found.rank, found.world_size) == (launcher, job, rank, world_size)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0"},
        {"RANK": "gold", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "99999999999", "WORLD_SIZE": "2"},
        {"RANK": "٣", "WORLD_SIZE": "4"},
        {"WORLD_SIZE": "2", "MASTER_ADDR": "n1"},
        slurm(0, step="4294967291"),
        slurm(0, step="batch"),
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7"},
        {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"},
    ],
    ids=str,
)
def test_what_is_no_rank(environment: dict[str, str]) -> None:
    """A word that happens to be RANK, a batch script, or a launcher before it has numbered anyone."""
    assert identify(environment) is None


def test_job_is_named_alike_on_all_nodes() -> None:
    """By Slurm's number, then torchrun's run id unless that is `none`, then where the ranks meet."""
    meeting = {"MASTER_ADDR": "n1", "MASTER_PORT": "1"}
    assert job_name({**meeting, "TORCHELASTIC_RUN_ID": "none"}) == "n1:1"
    assert job_name({**meeting, "TORCHELASTIC_RUN_ID": "x"}) == "x"
    assert job_name({**meeting, "TORCHELASTIC_RUN_ID": "x", "SLURM_JOB_ID": "9"}) == "slurm-9"


def test_hostile_job_name_is_made_harmless() -> None:
    """A name is printed in terminals and kept in tables."""
    assert job_name({"TORCHELASTIC_RUN_ID": "a\x1b[2Jb\n" + "c" * 1000}) == ("a[2Jb" + "c" * 1000)[:200]


def test_gpu_is_the_visible_device_of_the_local_rank() -> None:
    """Where one device is visible it is that one, whatever the local rank."""
    base = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    expected = {"4,GPU-aa": "GPU-aa", "7": "7", "": None, "0": "0"}
    for visible, gpu in expected.items():
        found = identify({**base, "CUDA_VISIBLE_DEVICES": visible})
        assert found is not None
        assert found.gpu == gpu


def test_nothing_secret_is_on_the_list_of_names() -> None:
    """The names are a list, not a pattern: no token or path of the user's is ever kept."""
    assert not {"HOME", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PATH"} & NAMES
    assert all("KEY" not in name and "TOKEN" not in name for name in NAMES)


LAUNCHING = """
/opt/venv/bin/python /opt/venv/bin/torchrun --nproc-per-node 4 train.py
python -m torch.distributed.run train.py
python3 -u -m torch.distributed.launch train.py
/usr/bin/srun -n 4 python train.py
mpirun -np 4 python train.py
/opt/venv/bin/python3 /opt/venv/bin/accelerate launch train.py
/opt/venv/bin/python -m accelerate.commands.launch train.py
python -u -m deepspeed.launcher.launch --world_info=x train.py
/opt/unhang/bin/python /opt/unhang/bin/unhang agent
"""
MENTIONING = """
python train.py
/opt/venv/bin/python -u train.py --launcher torchrun
python -m mycompany.train
python -c import_torchrun torchrun
bash -c torchrun
python -m
"""


def test_command_lines_of_launchers() -> None:
    """A launcher carries the variables of the node it runs on, and is no rank; not what merely mentions one."""
    for lines, expected in ((LAUNCHING, True), (MENTIONING, False)):
        for line in lines.strip().splitlines():
            assert is_launcher(line.split()) is expected, line
    assert not is_launcher([])
