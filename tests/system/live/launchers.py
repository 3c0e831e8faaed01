"""The ways to start a job: which commands, with which variables, and the name `unhang` gives the job.

A launcher turns an `Order` into a `Plan`; nothing is started here. The variables are those that each launcher
is documented to set, and no others: a job started "by srun" has no RANK.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.build.processes.ports import free_port

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Order:
    """What to run: a script on so many ranks, with a name that is unique on this machine."""

    program: Path
    ranks: int
    name: str
    absent: tuple[int, ...] = ()
    """Ranks that are expected and not started; without a launcher only."""
    python: str = sys.executable


@dataclass(frozen=True)
class Command:
    """One process to start, and the variables it gets beside the common ones."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """All processes to start, and the name under which the job is to be found."""

    job: str
    commands: tuple[Command, ...]


def torchrun(order: Order) -> Plan:
    """One elastic agent, with the job's name as its run id."""
    arguments = (
        *(order.python, "-m", "torch.distributed.run", "--nproc-per-node", str(order.ranks)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{LOOPBACK}:0", "--rdzv-id", order.name),
        *("--local-addr", LOOPBACK, str(order.program)),
    )
    return Plan(order.name, (Command(arguments, {}),))


def first_node(order: Order) -> Plan:
    """The first of two nodes that a script starts, rank by rank; nobody starts the second one."""
    meeting = _meeting_point()
    world = {"WORLD_SIZE": str(2 * order.ranks), **meeting}
    return Plan(_address(meeting), _each_rank(order, lambda rank: {**_torch_variables(rank, order.ranks), **world}))


def direct(order: Order) -> Plan:
    """No launcher: every rank is a process of its own, and stays when another one dies."""
    meeting = _meeting_point()
    return Plan(_address(meeting), _each_rank(order, lambda rank: {**meeting, **_torch_variables(rank, order.ranks)}))


def slurm(order: Order) -> Plan:
    """The variables of `srun`, which the program turns into its rank itself."""
    meeting = _meeting_point()
    number = str(int(meeting["MASTER_PORT"]) + 4_000_000)
    return Plan(
        f"slurm-{number}",
        _each_rank(order, lambda rank: {**meeting, **_slurm_variables(rank, order.ranks, number)}),
    )


def open_mpi(order: Order) -> Plan:
    """The variables of Open MPI's `mpirun`, and the meeting point that the user exports with `-x`."""
    meeting = _meeting_point()
    return Plan(
        _address(meeting), _each_rank(order, lambda rank: {**meeting, **_open_mpi_variables(rank, order.ranks)})
    )


def spawn(order: Order) -> Plan:
    """One process whose children set RANK themselves, after they have started."""
    meeting = _meeting_point()
    arguments = (order.python, str(order.program), str(order.ranks))
    return Plan(_address(meeting), (Command(arguments, meeting),))


def accelerate(order: Order) -> Plan:
    """`accelerate launch` on CPUs, which is torchrun's agent underneath."""
    port = str(free_port())
    arguments = (
        *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"),
        *("--num_processes", str(order.ranks), "--mixed_precision", "no", "--dynamo_backend", "no"),
        *("--main_process_ip", LOOPBACK, "--main_process_port", port, str(order.program)),
    )
    return Plan(f"{LOOPBACK}:{port}", (Command(arguments, {}),))


LAUNCHERS: Mapping[str, Callable[[Order], Plan]] = {
    "torchrun": torchrun,
    "first_node": first_node,
    "direct": direct,
    "slurm": slurm,
    "open_mpi": open_mpi,
    "spawn": spawn,
    "accelerate": accelerate,
}


def _each_rank(order: Order, variables: Callable[[int], Mapping[str, str]]) -> tuple[Command, ...]:
    present = (rank for rank in range(order.ranks) if rank not in order.absent)
    return tuple(Command((order.python, str(order.program)), variables(rank)) for rank in present)


def _torch_variables(rank: int, ranks: int) -> dict[str, str]:
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    return {name: str(value) for name, value in own.items()}


def _slurm_variables(rank: int, ranks: int, number: str) -> dict[str, str]:
    """https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES."""
    own = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_NTASKS": ranks, "SLURM_NODEID": 0}
    job = {"SLURM_JOB_ID": number, "SLURM_STEP_ID": "0", "SLURM_NNODES": "1"}
    return {**{name: str(value) for name, value in own.items()}, **job}


def _open_mpi_variables(rank: int, ranks: int) -> dict[str, str]:
    """https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html."""
    prefix = "OMPI_COMM_WORLD_"
    own = {"RANK": rank, "LOCAL_RANK": rank, "SIZE": ranks, "LOCAL_SIZE": ranks}
    return {prefix + name: str(value) for name, value in own.items()}


def _meeting_point() -> dict[str, str]:
    return {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(free_port())}


def _address(meeting: Mapping[str, str]) -> str:
    return f"{meeting['MASTER_ADDR']}:{meeting['MASTER_PORT']}"


def common_environment(directory: Path) -> dict[str, str]:
    """Return what every process of a job gets, whoever launches it: loopback alone, one thread, output at once."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {
        **inherited,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(directory),
    }


_NOT_INHERITED = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH", "SLURM_JOB_ID"}
)
