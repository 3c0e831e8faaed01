"""What a process group and an environment say together of who a rank is."""

import pytest

from agent.find.rank_identity import identity_of
from agent.find.torch_groups import TorchGroup

STORE = "node1:29500"
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "night",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
PLAIN = {name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def group(rank: int, size: int, store: str | None = STORE, *, is_first: bool = True) -> TorchGroup:
    """Return a process group as it would be found."""
    return TorchGroup(vtables=(1, {}), address=4096, rank=rank, size=size, store=store, is_first=is_first)  # type: ignore[arg-type]


def test_environment_that_agrees_says_the_rest() -> None:
    """The launcher's name for the job, its attempt, and the place on the node."""
    found = identity_of(TORCHRUN, group(3, 8))
    assert found is not None
    assert (found.job, found.rank, found.local_rank, found.attempt, found.launcher) == ("night", 3, 1, 2, "torchrun")


@pytest.mark.parametrize(
    ("environment", "rank", "size"),
    [
        ({}, 0, 2),
        (TORCHRUN, 0, 8),  # another rank
        (TORCHRUN, 3, 4),  # another size: RANK is of the nodes, and each node is a job of its own
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 8),
    ],
)
def test_environment_that_says_something_else(environment: dict[str, str], rank: int, size: int) -> None:
    """It is of no use: the job is where its ranks met."""
    found = identity_of(environment, group(rank, size))
    assert found is not None
    assert (found.job, found.rank, found.world_size, found.attempt, found.launcher) == (STORE, rank, size, 0, None)


def test_group_that_is_not_the_world_proves_nothing_against_a_launcher() -> None:
    """Seen with torchft: each of its jobs is one rank, and a group of them all comes and goes."""
    found = identity_of(TORCHRUN, group(1, 2, is_first=False))
    assert found is not None and (found.job, found.rank, found.world_size) == ("night", 3, 8)
    for unlaunched in ({}, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}):
        found = identity_of(unlaunched, group(1, 2, is_first=False))
        assert found is not None and (found.job, found.rank, found.world_size) == (STORE, 1, 2)


def test_address_that_the_program_did_not_take() -> None:
    """MASTER_PORT says one thing, `init_method` another: two such jobs side by side are two."""
    found = identity_of(PLAIN, group(3, 8, "node1:4242"))
    assert found is not None and found.job == "node1:4242"


def test_store_without_an_address() -> None:
    """Then the environment's name for the job is better than none."""
    found = identity_of(PLAIN, group(0, 2, None))
    assert found is not None and (found.job, found.rank) == (STORE, 0)


def test_no_group_yet() -> None:
    """Who has not called init_process_group is who the environment says."""
    found = identity_of(TORCHRUN, None)
    assert found is not None and (found.job, found.rank) == ("night", 3)
    assert identity_of({}, None) is None
