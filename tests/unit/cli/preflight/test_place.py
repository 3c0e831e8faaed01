"""Which node a process is, by the variables of real launchers."""

import pytest

from cli.preflight.place import NodePlace, Said, find_place
from shared.errors import InvalidSettings

NOTHING = Said()
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "8", "LOCAL_RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1", "MASTER_ADDR": "node01", "MASTER_PORT": "29500",
}  # fmt: skip
SRUN = {
    "SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4",
    "SLURM_NODEID": "3", "SLURM_NNODES": "4", "SLURM_STEP_NODELIST": "node[05-08]",
}  # fmt: skip
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MASTER_ADDR": "10.0.0.1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "said", "place"),
    [
        ({}, NOTHING, NodePlace(0, 1, "localhost", 0)),
        (TORCHRUN, NOTHING, NodePlace(1, 2, "node01", 8473)),
        ({**TORCHRUN, "RANK": "9", "LOCAL_RANK": "1"}, NOTHING, NodePlace(1, 2, "node01", 8473, spare=True)),
        (SRUN, NOTHING, NodePlace(3, 4, "node05", 8473)),
        ({**SRUN, "MASTER_ADDR": "node05-ib"}, NOTHING, NodePlace(3, 4, "node05-ib", 8473)),
        (MPIRUN, NOTHING, NodePlace(2, 3, "10.0.0.1", 8473)),
        ({"JOB_COMPLETION_INDEX": "5", "MASTER_ADDR": "job-0.job"}, Said(nodes=8), NodePlace(5, 8, "job-0.job", 8473)),
        ({}, Said(node=0, nodes=2, coordinator="[fe80::1]:99"), NodePlace(0, 2, "fe80::1", 99)),
    ],
)
def test_places(environment: dict[str, str], said: Said, place: NodePlace) -> None:
    """One task on each node takes part, and all know where the first one is."""
    assert find_place(environment, said) == place


@pytest.mark.parametrize(
    ("environment", "said", "message"),
    [
        ({"JOB_COMPLETION_INDEX": "5"}, NOTHING, "--nodes"),
        ({}, Said(nodes=4), "--node"),
        ({}, Said(node=4, nodes=4, coordinator="a:1"), "node 4 of 4"),
        ({}, Said(node=1, nodes=4), "address is not known"),
        ({}, Said(node=1, nodes=4, coordinator="a:port"), "HOST:PORT"),
        ({}, Said(node=1, nodes=10**9, coordinator="a:1"), "cannot be"),
    ],
)
def test_what_cannot_be_a_place(environment: dict[str, str], said: Said, message: str) -> None:
    """The error says what is missing, and its advice how to say it."""
    with pytest.raises(InvalidSettings, match=message) as raised:
        find_place(environment, said)
    assert raised.value.advice
