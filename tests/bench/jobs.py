"""What benchmarks look at, and who looks: real ranks under torchrun, and an agent in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from agent.probe.path import probe_path

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def a_job(program: str, directory: Path, *, name: str, ranks: int) -> Iterator[None]:
    """Run `program` of this folder as that many ranks, under the probe, from when all are ready until the block ends.

    Each rank makes the file `ready-RANK` in `directory`, which it finds in PULSE_DIRECTORY.
    """
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id={name}"]
    start = [sys.executable, "-m", "torch.distributed.run", *rendezvous, f"--nproc-per-node={ranks}"]
    own = {"PYTHONPATH": str(probe_path()), "PULSE_DIRECTORY": str(directory), "OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(
        [*start, str(Path(__file__).with_name(program))],
        env={**os.environ, **own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: len(list(directory.glob("ready-*"))) == ranks, seconds=180)
        time.sleep(2.0)
        yield
    finally:
        job.terminate()
        job.wait(timeout=60)


@contextmanager
def an_agent() -> Iterator[tuple[str, psutil.Process]]:
    """Run an agent on a free port; gives its URL and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "cli", "agent", "--listen", f"127.0.0.1:{port}"]
    agent = subprocess.Popen(
        command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url), seconds=30)
        yield url, psutil.Process(agent.pid)
    finally:
        agent.terminate()
        agent.wait(timeout=30)


def wait_for(true: Callable[[], bool], *, seconds: float) -> None:
    """Wait until the function `true` returns true. Raises TimeoutError after `seconds`."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"not ready within {seconds:.0f} s")
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False
