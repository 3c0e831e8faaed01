"""What 4,096 agents' digests cost a collector: real registrations at its pace.

`python -m tests.bench.digests [--agents N] [--seconds S] [--tls] [--close] [--unwatched] [--hung] [--tree FOLDER]`. A
real `unhang collector` with its defaults and a token; an agent sends its digest once in as many seconds as the
collector's answer says, in random order, as `agent/registration.py` does; over TLS on one connection, with `--close` on
a new one each. Its figure is all of the collector's processor time meanwhile: registrations, the detector, and the
exchange with the store. Before that `--rounds` rounds as fast as they go, for what one registration costs; after it the
same without a registration, while digests are fresh and once all agents are silent. `--unwatched`: agents whose jobs
nobody watches. `--hung`: all ranks stand still. `--tree`: the collector of another checkout. Budget (issue 15): 5 % of
one core.
"""

import argparse
import os
import random
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from collector.detect.limits import SILENT_SECONDS
from tests.bench.cluster import a_collector, cpu_seconds
from tests.bench.jobs import REPOSITORY
from tests.bench.simulated.digests import AT_ONCE, Agents
from tests.bench.simulated.farm import Farm, raise_file_limit
from tests.bench.simulated.servers import Task
from tests.build.services.certificates import Authority

_TOKEN = "a-token-of-the-benchmark-1234567890"
_OF_A_LEASE = 3.0
"""How often an agent without a digest renews its lease within it."""


class Case(NamedTuple):
    """Which agents, at which collector."""

    agents: int
    tls: bool = False
    unwatched: bool = False
    hung: bool = False
    keep: bool = True
    tree: Path = REPOSITORY


def measure(case: Case, seconds: float, rounds: int) -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    task = Task(nodes=case.agents, port=8471, stopped_ns=time.time_ns(), moving=not case.hung)
    nobody = Farm(Task(nodes=1, port=8471, stopped_ns=0), [])
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        tokens = folder / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(_TOKEN + "\n", encoding="ascii")
        signed = Authority(folder).sign("localhost") if case.tls else None
        started = a_collector(folder, nobody, registers=True, token_file=tokens, tls=signed, tree=case.tree)
        with started as (url, process):
            port = urlsplit(url).port
            assert port is not None
            tls = ssl.create_default_context(cafile=folder / "ca.pem") if case.tls else None
            agents = Agents(port, task, _TOKEN, tls, digests=not case.unwatched, keep=case.tls and case.keep)
            lease = agents.register_all(range(case.agents))
            every = lease.lease_seconds / _OF_A_LEASE if case.unwatched else lease.digest_seconds
            assert every is not None
            fast = [_in_a_row(agents, process) for _ in range(rounds)]
            share = _paced(agents, process, every, seconds)
            fresh = _paced(agents, process, 0.0, seconds / 4)
            time.sleep(max(0.0, SILENT_SECONDS - seconds / 4) if seconds else 0.0)
            silent = _paced(agents, process, 0.0, seconds / 4)
            memory = process.memory_info().rss / 2**20
            agents.close()
    return {
        "collector, resident memory": f"{memory:.0f} MiB",
        f"{case.agents:,} agents, once in {every:.0f} s: share of one core": f"{100 * share:.2f} %",
        "without a registration meanwhile": f"{100 * fresh:.2f} %",
        "once all agents are silent": f"{100 * silent:.2f} %",
        "one of many registrations: processor time of each round": ", ".join(f"{1000 * each:.3f} ms" for each in fast),
    }


def _in_a_row(agents: Agents, process: psutil.Process) -> float:
    used = cpu_seconds(process)
    agents.register_all(range(agents.task.nodes))
    return (cpu_seconds(process) - used) / agents.task.nodes


def _paced(agents: Agents, process: psutil.Process, every: float, seconds: float) -> float:
    """Return the share of a core that the collector takes while each agent tells once in `every` seconds (0: never)."""
    nodes = agents.task.nodes
    order = random.sample(range(nodes), nodes)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        used, begun, sent = cpu_seconds(process), time.monotonic(), []
        while (passed := time.monotonic() - begun) < seconds:
            due = int(passed * nodes / every) if every else 0
            sent += [threads.submit(agents.register, order[at % nodes]) for at in range(len(sent), due)]
            time.sleep(0.005)
        share = (cpu_seconds(process) - used) / max(passed, 0.001)
        for each in sent:
            each.result()
    return share


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and print the rows as a Markdown table."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("--agents", type=int, default=4096, metavar="N", help="a multiple of four")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tls", action="store_true", help="a collector with TLS")
    parser.add_argument("--close", action="store_true", help="agents that keep no connection")
    parser.add_argument("--unwatched", action="store_true", help="agents without digests")
    parser.add_argument("--hung", action="store_true", help="all ranks stand still")
    parser.add_argument("--tree", type=Path, default=REPOSITORY, metavar="FOLDER", help="whose collector")
    chosen = parser.parse_args(given)
    os.nice(5)  # the collector is measured, not we
    raise_file_limit(chosen.agents)
    print("| what | figure |\n| --- | --- |")
    case = Case(chosen.agents, chosen.tls, chosen.unwatched, chosen.hung, not chosen.close, chosen.tree)
    for what, figure in measure(case, chosen.seconds, chosen.rounds).items():
        print(f"| {what} | {figure} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
