"""Ray Train, torchft, remote calls and JAX, by `make frameworks`; those with GPUs run in the lab (tests/lab)."""

import sys
from pathlib import Path

import pytest

from tests.build.processes.ports import free_port
from tests.system.frameworks.environments import python_with
from tests.system.frameworks.launched import PROGRAMS, assert_named, launched
from tests.system.frameworks.test_launchers import assert_found_and_named

RAY = {"RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "120", "RAY_DISABLE_METRICS_COLLECTION": "1"}

pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.frameworks]


def torchrun(python: str, *, ranks: int = 2) -> tuple[str, ...]:
    """Return the command that starts two ranks, or so many, of the program that follows."""
    options = ("--nproc-per-node", str(ranks), "--master-port", str(free_port()))
    return (python, "-m", "torch.distributed.run", *options)


def test_ray_train(tmp_path: Path) -> None:
    """The training loop runs in a thread; the main thread of a worker waits for Ray."""
    python = python_with("ray[train]")
    with launched((python, str(PROGRAMS / "ray_train.py")), tmp_path, env=RAY) as job:
        assert_found_and_named(job)


def test_torchft(tmp_path: Path) -> None:
    """A replica group: its ranks wait for each other in a quorum, and their process group is not the world."""
    python = python_with("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk", "torchft-nightly")
    with launched((*torchrun(python), str(PROGRAMS / "torchft_replica.py")), tmp_path) as job:
        found = job.found()
        assert {(rank.identity.launcher, rank.identity.world_size) for rank in found.values()} == {("torchrun", 2)}
        (name,) = {rank.identity.job for rank in found.values()}
        assert_named(job.judged(str(name)).diagnosis)


def test_remote_calls(tmp_path: Path) -> None:
    """Nothing of it is in a flight record: the driver waits for futures, the others for the driver.

    Threads of TensorPipe spin in each of them, which is no work.
    """
    with launched((*torchrun(sys.executable, ranks=3), str(PROGRAMS / "remote_calls.py")), tmp_path, ranks=3) as job:
        (name,) = {rank.identity.job for rank in job.found().values()}
        assert_named(job.judged(str(name), patience_seconds=30.0).diagnosis)


@pytest.mark.needs("mpirun")
def test_jax(tmp_path: Path) -> None:
    """Found by the variables of its launcher, and judged by stacks alone."""
    options = ("--allow-run-as-root", "--oversubscribe", "-np", "2")
    python, program = python_with("jax"), str(PROGRAMS / "jax_sum.py")
    with launched(("mpirun", *options, python, program, f"127.0.0.1:{free_port()}"), tmp_path) as job:
        assert_found_and_named(job, recorded=False)


def test_jax_by_hand(tmp_path: Path) -> None:
    """Found in the memory of each process, by JAX's own state; its job is where they met."""
    address, program = f"127.0.0.1:{free_port()}", PROGRAMS / "jax_sum.py"
    script = f"for rank in 0 1; do {python_with('jax')} {program} {address} $rank 2 & done; wait"
    with launched(("sh", "-c", script), tmp_path) as job:
        assert_found_and_named(job, name=address, recorded=False)
