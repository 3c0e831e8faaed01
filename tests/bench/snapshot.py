"""What one look costs: a snapshot of eight ranks over HTTP, and how long each rank stands still for it.

Budget (design, section 4): eight ranks, plain stacks, window 64: < 300 ms on two cores, each rank paused < 15 ms;
the idle agent uses < 0.2 % of a core and < 80 MiB.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
import psutil

from agent.probe.path import probe_path

RANKS = 8
JOB = f"bench-{os.getpid()}"
LOOKS = 20
IDLE_SECONDS = 30.0
REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def eight_ranks(directory: Path) -> Iterator[None]:
    """Run eight ranks that hang, under the probe, until the block ends."""
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id={JOB}"]
    job = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *rendezvous,
            f"--nproc-per-node={RANKS}",
            str(Path(__file__).with_name("pulse.py")),
        ],
        env={**os.environ, "PYTHONPATH": str(probe_path()), "PULSE_DIRECTORY": str(directory), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: len(list(directory.glob("ready-*"))) == RANKS, seconds=180)
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
        wait_for(lambda: answers(url), seconds=30)
        yield url, psutil.Process(agent.pid)
    finally:
        agent.terminate()
        agent.wait(timeout=30)


def wait_for(true: object, *, seconds: float) -> None:
    """Wait until the function `true` returns true. Raises TimeoutError after `seconds`."""
    assert callable(true)
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"not ready within {seconds:.0f} s")
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


def pauses(directory: Path, begun_ns: int, ended_ns: int) -> list[float]:
    """Each rank's longest gap within the time, in milliseconds."""
    longest = []
    for rank in range(RANKS):
        lines = [line.split() for line in (directory / str(rank)).read_text().splitlines()]
        gaps = [int(gap) for at, gap in (line for line in lines if len(line) == 2) if begun_ns <= int(at) <= ended_ns]
        longest.append(max(gaps, default=0) / 1e6)
    return longest


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    with tempfile.TemporaryDirectory() as name, eight_ranks(Path(name)), an_agent() as (url, agent):
        directory = Path(name)
        quiet_from = time.monotonic_ns()
        used = agent.cpu_times()
        time.sleep(IDLE_SECONDS)
        idle = agent.cpu_times()
        quiet = pauses(directory, quiet_from, time.monotonic_ns())
        seconds, stops, size = [], [], 0
        with httpx.Client(base_url=url, timeout=30.0) as client:
            client.get("/v1/snapshot", params={"job": JOB})
            for _ in range(LOOKS):
                begun = time.monotonic_ns()
                answer = client.get("/v1/snapshot", params={"job": JOB, "stacks": "plain", "window": 64})
                ended = time.monotonic_ns()
                assert len(answer.json()["ranks"]) == RANKS, answer.text[:200]
                seconds.append((ended - begun) / 1e9)
                size = len(answer.content)
                time.sleep(0.2)
                stops.append(max(pauses(directory, begun, ended + 50_000_000)))
        share = (idle.user + idle.system - used.user - used.system) / IDLE_SECONDS
        return {
            f"snapshot of {RANKS} ranks, plain, window 64, median of {LOOKS}": f"{median(seconds) * 1000:.0f} ms",
            "longest of these snapshots": f"{max(seconds) * 1000:.0f} ms",
            "longest pause of any rank in one snapshot, median": f"{median(stops):.1f} ms",
            "the same, longest": f"{max(stops):.1f} ms",
            "longest gap of any rank while nobody looks, for comparison": f"{max(quiet):.1f} ms",
            "size of one snapshot": f"{size / 1024:.0f} KiB",
            "idle agent, share of one core": f"{share:.2%}",
            "idle agent, resident memory": f"{agent.memory_info().rss / 2**20:.0f} MiB",
        }
