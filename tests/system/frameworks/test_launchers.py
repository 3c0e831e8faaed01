"""Jobs as frameworks and launchers really start them: found with the ranks that they have, and judged.

Each job is launched once, with the probe, and looked at once. It is judged as it was seen, and as if it had had no
record, as a job that nobody has prepared has none.
"""

import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.proc.procfs import ProcFs
from shared.wire.trace import Trace
from tests.build.processes.ports import free_port
from tests.system.frameworks.environments import python_with
from tests.system.frameworks.launched import PROGRAMS, Launched, assert_named, launched, without_records

# Steady: one agent here searches the other tests' processes, too, of which each may have PyTorch.
pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.steady]

NOBODY = 65_534
PLAIN = str(PROGRAMS / "plain.py")


def assert_found_and_named(job: Launched, *, name: str | None = None, recorded: bool = True) -> None:
    """Its ranks are found as they are, under one name; the sleeper is named, by stacks alone, too."""
    found = job.found()
    pids = {number: ProcFs().inner_pid(rank.stat.pid) for number, rank in found.items()}
    assert pids == dict(job.pids), job.output.read_text(errors="replace")
    assert {rank.identity.world_size for rank in found.values()} == {len(job.pids)}
    (seen,) = {rank.identity.job for rank in found.values()}
    assert seen is not None and name in (None, seen)
    swept = job.judged(seen)
    assert_named(swept.diagnosis)
    assert_named(without_records(swept))
    records = [rank for node in swept.snapshots for rank in node.ranks if isinstance(rank.recorder, Trace)]
    assert bool(records) == recorded, "nothing had a flight record, or who can have none"


def python(program: str, *arguments: str, packages: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that runs a program of this folder."""
    interpreter = python_with(*packages) if packages else sys.executable
    return (interpreter, str(PROGRAMS / program), *arguments)


@pytest.mark.root
@pytest.mark.needs("setpriv")
def test_spawned_as_in_the_tutorial_by_another_user(tmp_path: Path) -> None:
    """`mp.spawn`, by a user who is not the one who asks, beside all that other tests run."""
    port = str(free_port())
    # Where the tests' Python lies in root's home, nobody else reaches it otherwise.
    may_read = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *may_read)
    with launched((*become, *python("ddp_tutorial.py", port)), tmp_path, beside_all=True) as job:
        assert_found_and_named(job, name=f"localhost:{port}")


@pytest.mark.frameworks
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_lightning(tmp_path: Path, strategy: str) -> None:
    """Rank 0 is what the user has started; no RANK stands in any environment."""
    command = python("lightning_trainer.py", strategy, packages=["pytorch-lightning"])
    with launched(command, tmp_path) as job:
        assert_found_and_named(job)


@pytest.mark.frameworks
def test_ignite(tmp_path: Path) -> None:
    """`idist.Parallel` spawns the ranks itself."""
    port = str(free_port())
    with launched(python("ignite_parallel.py", port, packages=["pytorch-ignite"]), tmp_path) as job:
        assert_found_and_named(job, name=f"127.0.0.1:{port}")


@pytest.mark.frameworks
def test_submitit(tmp_path: Path) -> None:
    """Each rank is a task that runs a pickled function: its command line names no program of the user's."""
    command = python("submitit_tasks.py", str(tmp_path / "tasks"), packages=["submitit"])
    with launched(command, tmp_path) as job:
        assert_found_and_named(job)


@pytest.mark.frameworks
def test_torchx(tmp_path: Path) -> None:
    """`dist.ddp` of TorchX on its local scheduler, which runs `torchrun` by its name in a shell."""
    ddp = ("dist.ddp", "-j", "1x2", "--script", PLAIN, "--", "env://")
    command = (python_with("torchx"), "-m", "torchx.cli.main", "run", "--scheduler", "local_cwd", *ddp)
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    with launched(command, tmp_path, env={"PATH": path}) as job:
        assert_found_and_named(job)


@pytest.mark.needs("mpirun")
def test_open_mpi(tmp_path: Path) -> None:
    """The real `mpirun`, whose variables the program reads itself."""
    options = ("--allow-run-as-root", "--oversubscribe", "-np", "2")
    command = ("mpirun", *options, sys.executable, PLAIN, f"tcp://127.0.0.1:{free_port()}")
    with launched(command, tmp_path) as job:
        assert_found_and_named(job)


@pytest.mark.needs("mpirun")
def test_open_mpi_whose_variables_nobody_can_read(tmp_path: Path) -> None:
    """Found by the world that each rank keeps in its memory, under the name that the variables would have given it."""
    options = ("--allow-run-as-root", "--oversubscribe", "-np", "2")
    with launched(("mpirun", *options, sys.executable, str(PROGRAMS / "mpi_barrier.py")), tmp_path) as job:
        assert_found_and_named(job, name=job.output.read_text().split()[0], recorded=False)


def test_ranks_of_which_each_is_started_another_way(tmp_path: Path) -> None:
    """Below a shell, by `uv run`, by Python without its environment, and in a container seen from its node."""
    port = free_port()
    rank = [PLAIN, f"tcp://127.0.0.1:{port}"]
    uv = str(Path(sys.executable).with_name("uv"))
    script = "\n".join(
        [
            f"sh -c '{sys.executable} {' '.join(rank)} 0 4; true' &",
            f"{uv} run --no-project --offline --python {sys.executable} {' '.join(rank)} 1 4 &",
            f"{sys.executable} -I {' '.join(rank)} 2 4 &",
            f"unshare --user --map-root-user --pid --mount --fork --mount-proc {sys.executable} {' '.join(rank)} 3 4 &",
            "wait",
        ]
    )
    with launched(("sh", "-c", script), tmp_path, ranks=4) as job:
        assert_found_and_named(job, name=f"127.0.0.1:{port}")
