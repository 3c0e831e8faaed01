"""A whole cluster asked about one job, from POST to verdict: a real collector, simulated agents on real sockets.

`python -m tests.bench.cluster [--agents N ...] [--runs R]`. The collector is `unhang collector` with its defaults, told
its agents by a file, with a fresh store; each agent (`tests/bench/simulated`) answers for eight ranks of a job of
which one has stopped. Each verdict must name that rank, its kind and its cause, or the benchmark fails. Budget (issue
5): 1,024 agents on two cores shared with the simulated agents: less than 6 s, 4 s of cpu, 700 MiB; and from 64 to 4,096
agents growth no worse than linear.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil

from shared.rank_sets import fold
from tests.bench.jobs import REPOSITORY, wait_for
from tests.bench.simulated.digests import Agents, digest_of
from tests.bench.simulated.farm import Farm, agents
from tests.bench.simulated.job import NAME, PER_NODE, SimulatedJob
from tests.build.services.certificates import Signed

SIZES = (64, 256, 1024, 4096)
RUNS = 5
WAIT_SECONDS = 60.0
LEASE_SECONDS = 300.0
_MIB = 2**20


class Run(NamedTuple):
    """What one diagnosis took."""

    seconds: float
    cpu_seconds: float
    received_bytes: int
    """By the collector, from the agents: as it was on the wire, with headers."""
    asked_bytes: int
    requests: int
    agents_cpu_seconds: float


class Measured(NamedTuple):
    """Some diagnoses of one job by one collector."""

    runs: tuple[Run, ...]
    peak_bytes: int
    """Of the collector and its child processes, the sum of what each had at most."""

    def median(self, name: str) -> float:
        """The middle of the runs by one of their figures."""
        return median(float(getattr(run, name)) for run in self.runs)


class WrongVerdict(AssertionError):
    """The collector has answered something else than what is the case."""


def measure(sizes: Sequence[int] = SIZES, runs: int = RUNS) -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    rows: dict[str, str] = {}
    hung = {size: diagnose_often(size, runs) for size in sizes}
    for size, measured in hung.items():
        rows |= _rows(f"{size:,} agents", measured)
    rows |= _growth(hung)
    middle = sizes[-1] if len(sizes) < 3 else sizes[-2]
    for size in sizes:
        seen = diagnose_often(size, runs, watched=True)
        rows[f"{size:,} agents of a watched job: POST to verdict, cpu"] = _figures(seen)
    trains = diagnose_often(middle, max(1, runs // 2), moving=True, watched=True)
    rows[f"{middle:,} agents of a watched job that trains: POST to verdict, cpu"] = _figures(trains)
    both = diagnose_often(middle, max(1, runs // 2), faulty=True, watched=True)
    rows[f"{middle:,} agents of a watched job, ten of them silent and five slow: POST to verdict, cpu"] = _figures(both)
    moving = diagnose_often(middle, max(1, runs // 2), moving=True)
    rows[f"{middle:,} agents of a job that trains: POST to verdict, cpu"] = _figures(moving)
    faulty = diagnose_often(middle, max(1, runs // 2), faulty=True)
    rows[f"{middle:,} agents, ten of them silent and five slow: POST to verdict, cpu"] = _figures(faulty)
    encrypted = diagnose_often(middle, max(1, runs // 2), tls=True)
    rows[f"{middle:,} agents over TLS: POST to verdict, cpu"] = _figures(encrypted)
    return rows


def diagnose_often(
    size: int,
    runs: int,
    *,
    moving: bool = False,
    faulty: bool = False,
    tls: bool = False,
    watched: bool = False,
) -> Measured:
    """Diagnose a job on so many nodes some times with one collector. Raises WrongVerdict.

    `watched`: agents that answer register, and tell where their ranks stand, before each diagnosis.
    """
    print(f"making {size:,} agents ready …", file=sys.stderr)
    with agents(size, moving=moving, faulty=faulty, tls=tls) as farm:
        return diagnose_these(farm, runs, watched=watched)


def diagnose_these(farm: Farm, runs: int, *, watched: bool = False) -> Measured:
    """Diagnose the job of these agents some times with one collector. Raises WrongVerdict."""
    size = farm.task.nodes
    with (
        tempfile.TemporaryDirectory() as directory,
        a_collector(Path(directory), farm, registers=watched) as (url, process),
    ):
        done = []
        for number in range(runs):
            if watched:
                print(f"{size:,} digests: {1000 * tell(url, process, farm):.2f} ms of cpu each", file=sys.stderr)
            done.append(_diagnose(url, process, farm))
            seconds, cpu = done[-1].seconds, done[-1].cpu_seconds
            print(f"{size:,} agents, run {number + 1}: {seconds:.2f} s, {cpu:.2f} s cpu", file=sys.stderr)
        return Measured(tuple(done), _peak_bytes(process))


@contextmanager
def a_collector(
    directory: Path,
    farm: Farm,
    *,
    registers: bool = False,
    token_file: Path | None = None,
    tls: Signed | None = None,
    tree: Path = REPOSITORY,
) -> Iterator[tuple[str, psutil.Process]]:
    """Run a collector of these agents with a store in `directory`; gives its URL and its process.

    `tree`: the checkout whose collector it is.
    """
    (directory / "agents.txt").write_text("\n".join(farm.addresses), encoding="ascii")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    places = ["--agents-file", str(directory / "agents.txt"), "--store", str(directory / "store.sqlite3")]
    if farm.task.authority is not None:
        (directory / "ca.pem").write_text(farm.task.authority.certificate, encoding="ascii")
        places += ["--agent-ca-file", str(directory / "ca.pem")]
    if registers:
        places += ["--registration-seconds", str(LEASE_SECONDS)]
    if token_file is not None:
        places += ["--token-file", str(token_file)]
    if tls is not None:
        places += ["--tls-cert-file", str(tls.certificate), "--tls-key-file", str(tls.key)]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG_")}
    with (directory / "collector.log").open("wb") as log:
        collector = subprocess.Popen(
            [sys.executable, "-m", "cli", "collector", "--listen", listen, *places],
            cwd=tree,
            env={**ours, "PYTHONPATH": str(tree)},
            stderr=log,
        )
        try:
            try:
                wait_for(lambda: _is_up(f"{'http' if tls is None else 'https'}://{listen}"), seconds=60)
            except TimeoutError:
                print((directory / "collector.log").read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
                raise
            yield f"http://{listen}", psutil.Process(collector.pid)
        finally:
            collector.terminate()
            collector.wait(timeout=60)


def _is_up(url: str) -> bool:
    try:
        # Without certificates: to load all that are trusted takes more than the answer does.
        return httpx.get(f"{url}/healthz", timeout=2.0, trust_env=False, verify=False).status_code == 200
    except httpx.HTTPError:
        return False


def tell(url: str, process: psutil.Process, farm: Farm) -> float:
    """Have all agents that answer register with their digests; returns the collector's cpu seconds for each."""
    for number in range(farm.task.nodes):
        digest_of(farm.task, number, time.time_ns())  # what is slow about it is remembered: none is to be old when sent
    port = urlsplit(url).port
    assert port is not None
    silent = {*farm.task.mute, *farm.task.unreachable}
    those = [number for number in range(farm.task.nodes) if number not in silent]
    used = cpu_seconds(process)
    Agents(port, farm.task).register_all(those)
    return (cpu_seconds(process) - used) / len(those)


def _diagnose(url: str, process: psutil.Process, farm: Farm) -> Run:
    farm.begin()
    used = cpu_seconds(process)
    began = time.perf_counter()
    answer = httpx.post(
        f"{url}/v1/jobs/{NAME}/diagnoses",
        params={"wait": WAIT_SECONDS},
        timeout=2 * WAIT_SECONDS,
        trust_env=False,
        verify=False,
    )
    seconds = time.perf_counter() - began
    cpu = cpu_seconds(process) - used
    told = farm.report()
    if answer.status_code != 200:
        raise WrongVerdict(f"no verdict within {WAIT_SECONDS:.0f} s: {answer.status_code} {answer.text[:500]}")
    hold_to_truth(answer.json(), farm)
    return Run(seconds, cpu, told.sent_bytes, told.received_bytes, sum(told.requests.values()), told.cpu_seconds)


def hold_to_truth(diagnosis: dict[str, Any], farm: Farm) -> None:
    """Raise WrongVerdict where the diagnosis is not what is the case.

    Of agents that do not answer it may say so in further findings.
    """
    job = SimulatedJob(farm.task.nodes, farm.task.moving)
    silent = {node * PER_NODE + at for node in (*farm.task.mute, *farm.task.unreachable) for at in range(PER_NODE)}
    named = [[culprit["rank"] for culprit in each["culprits"]] for each in diagnosis["findings"]]
    findings = [
        (each["kind"], fold(ranks), each["cause"])
        for each, ranks in zip(diagnosis["findings"], named, strict=True)
        if not silent.issuperset(ranks)
    ]
    told = (diagnosis["verdict"], findings)
    true = ("not_hung", []) if job.moving else ("hung", [("rank_not_joined", str(job.culprit), "dataloader")])
    if told != true:
        seen = f"{diagnosis['coverage']['seen']} of {job.world} ranks seen, {diagnosis['took_seconds']} s"
        raise WrongVerdict(f"{str(told)[:1000]} instead of {true}; {seen}: {diagnosis['headline']}")


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time of a process, of its children that live, and of those that it has waited for."""
    times = process.cpu_times()
    own = times.user + times.system + times.children_user + times.children_system
    return float(own) + sum(cpu_seconds(child) for child in process.children())


def _peak_bytes(process: psutil.Process) -> int:
    pids = [process.pid, *(child.pid for child in process.children(recursive=True))]
    statuses = [Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace") for pid in pids]
    return sum(int(line.split()[1]) * 1024 for text in statuses for line in text.splitlines() if "VmHWM" in line)


def _rows(what: str, measured: Measured) -> dict[str, str]:
    ranks = f"{len(measured.runs)} runs"
    longest = max(run.seconds for run in measured.runs)
    received, asked = measured.median("received_bytes"), measured.median("asked_bytes")
    return {
        f"{what}, POST to verdict: median of {ranks}, longest": f"{measured.median('seconds'):.2f} s, {longest:.2f} s",
        f"{what}, collector, cpu": f"{measured.median('cpu_seconds'):.2f} s",
        f"{what}, collector, peak memory": f"{measured.peak_bytes / _MIB:.0f} MiB",
        f"{what}, on the wire: answers, requests": f"{received / _MIB:.1f} MiB, {asked / _MIB:.2f} MiB",
        f"{what}, requests": f"{measured.median('requests'):.0f}",
        f"{what}, cpu of the simulated agents": f"{measured.median('agents_cpu_seconds'):.2f} s",
    }


def _growth(hung: dict[int, Measured]) -> dict[str, str]:
    """Compare the largest with the smallest: what it takes more, against how many more agents there are."""
    small, large = min(hung), max(hung)
    if small == large:
        return {}
    names = ("seconds", "cpu_seconds", "received_bytes")
    grown = [hung[large].median(name) / hung[small].median(name) for name in names]
    grown.append(hung[large].peak_bytes / hung[small].peak_bytes)
    figures = ", ".join(f"{factor:.1f}" for factor in grown)
    return {f"{large / small:.0f} times as many agents: times the seconds, cpu, bytes, memory": figures}


def _figures(measured: Measured) -> str:
    return f"{measured.median('seconds'):.2f} s, {measured.median('cpu_seconds'):.2f} s"


def main() -> int:
    """Measure, and print the rows as a Markdown table."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=SIZES, metavar="N", help="multiples of four")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="R")
    given = parser.parse_args()
    rows = measure(sorted(given.agents), given.runs)
    print("| what | figure |\n| --- | --- |")
    for what, figure in rows.items():
        print(f"| {what} | {figure} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
