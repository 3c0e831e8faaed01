"""What one look costs: a snapshot of eight ranks over HTTP, and whether a rank gets less of a processor meanwhile.

Budget (design, section 4): eight ranks, plain stacks, window 64: < 300 ms on two cores, without a pause;
the idle agent uses < 0.2 % of a core and < 80 MiB.
"""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
import psutil

from tests.bench.jobs import a_job, an_agent

RANKS = 8
JOB = f"bench-{os.getpid()}"
LOOKS = 20
SETTLED_SECONDS = 30.0
"""By then an agent has searched the memory of all processes with PyTorch, which it does once."""
IDLE_SECONDS = 60.0


def pauses(directory: Path, begun_ns: int, ended_ns: int) -> list[float]:
    """Each rank's longest gap within the time, in milliseconds."""
    longest = []
    for rank in range(RANKS):
        lines = [line.split() for line in (directory / str(rank)).read_text().splitlines()]
        gaps = [int(gap) for at, gap in (line for line in lines if len(line) == 2) if begun_ns <= int(at) <= ended_ns]
        longest.append(max(gaps, default=0) / 1e6)
    return longest


def _cpu_seconds(agent: psutil.Process) -> float:
    """What an agent and the programs that it has run have used."""
    return sum(agent.cpu_times()[:4])


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    with (
        tempfile.TemporaryDirectory() as name,
        a_job("pulse.py", Path(name), name=JOB, ranks=RANKS),
        an_agent() as (url, agent),
    ):
        directory = Path(name)
        time.sleep(SETTLED_SECONDS)
        quiet_from = time.monotonic_ns()
        used = agent.cpu_times()
        time.sleep(IDLE_SECONDS)
        idle = agent.cpu_times()
        quiet = pauses(directory, quiet_from, time.monotonic_ns())
        seconds, stops, size = [], [], 0
        with httpx.Client(base_url=url, timeout=30.0) as client:
            client.get("/v1/snapshot", params={"job": JOB})
            before = _cpu_seconds(agent)
            for _ in range(LOOKS):
                begun = time.monotonic_ns()
                answer = client.get("/v1/snapshot", params={"job": JOB, "stacks": "plain", "window": 64})
                ended = time.monotonic_ns()
                assert len(answer.json()["ranks"]) == RANKS, answer.text[:200]
                seconds.append((ended - begun) / 1e9)
                size = len(answer.content)
                time.sleep(0.2)
                stops.append(max(pauses(directory, begun, ended + 50_000_000)))
            worked = (_cpu_seconds(agent) - before) / LOOKS
        share = (idle.user + idle.system - used.user - used.system) / IDLE_SECONDS
        return {
            f"snapshot of {RANKS} ranks, plain, window 64, median of {LOOKS}": f"{median(seconds) * 1000:.0f} ms",
            "processor time of one, the agent's and py-spy's": f"{worked * 1000:.0f} ms",
            "longest of these snapshots": f"{max(seconds) * 1000:.0f} ms",
            "longest gap of any rank during one snapshot, median": f"{median(stops):.1f} ms",
            "the same, longest": f"{max(stops):.1f} ms",
            "longest gap of any rank without a look, for comparison": f"{max(quiet):.1f} ms",
            "size of one snapshot": f"{size / 1024:.0f} KiB",
            "idle agent, share of one core": f"{share:.2%}",
            "idle agent, resident memory": f"{agent.memory_info().rss / 2**20:.0f} MiB",
        }
