"""What 4,096 agents' digests cost a collector: real registrations at its pace, each on a connection.

`python -m tests.bench.digests [--agents N] [--seconds S]`. A real `unhang collector` with its defaults and a token; an
agent sends its digest once in as many seconds as the collector's answer says, in random order, as
`agent/registration.py` does. Its figure is all of the collector's processor time meanwhile: registrations, the
detector, and the exchange with the store. Before that `--rounds` rounds as fast as they go, for what one registration
costs. Budget (issue 15): 5 % of one core.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.bench.cluster import a_collector, cpu_seconds
from tests.bench.simulated.digests import register
from tests.bench.simulated.farm import Farm
from tests.bench.simulated.servers import Task

_TOKEN = "a-token-of-the-benchmark-1234567890"


def measure(agents: int, seconds: float, rounds: int) -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    farm = Farm(Task(nodes=agents, port=8471, stopped_ns=time.time_ns(), moving=True), [])
    nobody = Farm(Task(nodes=1, port=8471, stopped_ns=0), [])
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens"
        tokens.write_text(_TOKEN + "\n", encoding="ascii")
        tokens.chmod(0o600)
        with a_collector(Path(directory), nobody, registers=True, token_file=tokens) as (url, process):
            port = urlsplit(url).port
            assert port is not None
            for number in range(agents):
                lease = register(port, farm.task, number, token=_TOKEN)
            assert lease.digest_seconds is not None
            fast = [_in_a_row(port, process, farm) for _ in range(rounds)]
            still = _paced(port, process, farm, 0.0, seconds / 4)
            share = _paced(port, process, farm, lease.digest_seconds, seconds)
    often = f"once in {lease.digest_seconds:.0f} s"
    return {
        f"{agents:,} agents, {often}: share of one core": f"{100 * share:.2f} %",
        "without a registration meanwhile": f"{100 * still:.2f} %",
        "a registration with its digest: processor time of each round": ", ".join(
            f"{1000 * each:.3f} ms" for each in fast
        ),
    }


def _in_a_row(port: int, process: psutil.Process, farm: Farm) -> float:
    used = cpu_seconds(process)
    for number in range(farm.task.nodes):
        register(port, farm.task, number, token=_TOKEN)
    return (cpu_seconds(process) - used) / farm.task.nodes


def _paced(port: int, process: psutil.Process, farm: Farm, every: float, seconds: float) -> float:
    """Return the share of a core that the collector takes while each agent tells once in `every` seconds (0: never)."""
    order = random.sample(range(farm.task.nodes), farm.task.nodes)
    used, begun, sent = cpu_seconds(process), time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        due = int(passed * farm.task.nodes / every) if every else 0
        for _ in range(sent, due):
            register(port, farm.task, order[sent % len(order)], token=_TOKEN)
            sent += 1
        time.sleep(0.005)
    return (cpu_seconds(process) - used) / passed


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and print the rows as a Markdown table."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("--agents", type=int, default=4096, metavar="N", help="a multiple of four")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(given)
    os.nice(5)  # the collector is measured, not we
    print("| what | figure |\n| --- | --- |")
    for what, figure in measure(chosen.agents, chosen.seconds, chosen.rounds).items():
        print(f"| {what} | {figure} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
