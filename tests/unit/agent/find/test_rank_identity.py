"""What a process group and an environment say together of who a rank is."""

import pytest

from agent.find.rank_identity import identity_of
from agent.find.torch_stores import TorchGroup

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
SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
PLAIN = {name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def group(rank: int, size: int, store: str | None = STORE, *, is_first: bool = True) -> TorchGroup:
    """Return a process group as it would be found."""
    return TorchGroup(vtables=(1, {}), address=4096, rank=rank, size=size, store=store, is_first=is_first)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "found", "job", "rank", "size", "launcher"),
    [
        # it agrees, and says the rest: the launcher's name for the job, its attempt, and the place on the node
        (TORCHRUN, group(3, 8), "night", 3, 8, "torchrun"),
        # it says something else, and is of no use: the job is where its ranks met
        ({}, group(0, 2), STORE, 0, 2, None),
        (TORCHRUN, group(0, 8), STORE, 0, 8, None),
        (TORCHRUN, group(3, 4), STORE, 3, 4, None),  # RANK is of the nodes, and each node is a job of its own
        (SLURM, group(0, 8), STORE, 0, 8, None),
        # a group that is not the world proves nothing against a launcher: torchft's comes and goes
        (TORCHRUN, group(1, 2, is_first=False), "night", 3, 8, "torchrun"),
        ({}, group(1, 2, is_first=False), STORE, 1, 2, None),
        (SLURM, group(1, 2, is_first=False), STORE, 1, 2, None),
        # MASTER_PORT says one thing, `init_method` another: two such jobs side by side are two
        (PLAIN, group(3, 8, "node1:4242"), "node1:4242", 3, 8, "env"),
        # a store without an address: the environment's name for the job is better than none
        (PLAIN, group(0, 2, None), STORE, 0, 2, None),
        # who has not called init_process_group is who the environment says
        (TORCHRUN, None, "night", 3, 8, "torchrun"),
    ],
)
def test_who_it_is(
    environment: dict[str, str], found: TorchGroup | None, job: str, rank: int, size: int, launcher: str | None
) -> None:
    """By the group where there is one, and by the launcher's words where they fit."""
    told = identity_of(environment, found)
    assert told is not None
    assert (told.job, told.rank, told.world_size, told.launcher) == (job, rank, size, launcher)
    assert told.attempt == (2 if launcher == "torchrun" else 0)
    assert told.local_rank == (1 if environment is TORCHRUN else None)


def test_who_is_nobody() -> None:
    """Neither a group nor a variable."""
    assert identity_of({}, None) is None
