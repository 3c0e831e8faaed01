"""`python -m tests.bench.alarms --jobs 20`: how long after a rank hangs a webhook has the incident, nobody asking.

Real jobs, one after the other, before one agent and one collector with their defaults. Where other jobs run on the
machine, begin it in a pid namespace of its own: `unshare --pid --fork --mount-proc python -m tests.bench.alarms`.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.bench.jobs import REPOSITORY
from tests.build.processes.ports import free_port
from tests.build.processes.processes import until
from tests.build.services.incident_receivers import Received, ReceiverServer, served_receiver
from tests.system.live.asking import unhang
from tests.system.live.jobs import Job
from tests.unit.collector.notify.files import webhook_file

PROGRAMS = ("asleep_before_collective", "recv_ring")
"""One rank has not joined; and one whose ranks wait for each other, with equal counts."""
_MOST_SECONDS = 240.0


def measure(jobs: int) -> Mapping[str, str]:
    """Return the figures."""
    delays: list[float] = []
    wrong = 0
    with TemporaryDirectory() as directory, ExitStack() as stack:
        folder = Path(directory)
        server = stack.enter_context(served_receiver(ReceiverServer()))
        hook = webhook_file(folder, server.url, 'include = ["names"]')
        stack.enter_context(serving(folder, "--notify-file", str(hook)))
        for number in range(jobs):
            program = PROGRAMS[number % len(PROGRAMS)]
            with Job(program, directory=folder, recorded=True, forked=True) as job:
                begun = time.time()
                told = _first_about(server, job.name)
                delays.append(told.at - begun)
                data = told.json()["data"]
                wrong += (data["kind"], data["ranks"]) != ("rank_not_joined", "2") and data["kind"] != "p2p_deadlock"
                print(f"{program}: {delays[-1]:.0f} s, {data['summary']}", flush=True)
    delays.sort()
    late = delays[max(0, -(-95 * len(delays) // 100) - 1)]
    return {
        f"from the hang to the webhook, {jobs} jobs: median": f"{delays[len(delays) // 2]:.0f} s",
        "95th percentile": f"{late:.0f} s",
        "longest": f"{delays[-1]:.0f} s",
        "with another kind or culprit than the right one": str(wrong),
    }


def _first_about(server: ReceiverServer, job: str) -> Received:
    def found() -> Sequence[Received]:
        return [each for each in server.received if each.json()["data"]["names"]["job"] == job]

    return until(found, bool, seconds=_MOST_SECONDS)[0]


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[str]:
    """Run an agent of this machine and a collector with a store in `folder`, with its options; yields its URL."""
    collector, agent = (f"127.0.0.1:{free_port()}" for _ in range(2))
    store = folder / "state"
    store.mkdir(mode=0o700)
    keep = ("--store", str(store / "collector.sqlite3"), *more)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG")}
    commands = (
        unhang("collector", "--listen", collector, "--registration-seconds", "60", *keep),
        unhang("agent", "--listen", agent, "--collectors", f"http://{collector}"),
    )
    with (folder / "log").open("wb") as log:
        running = [subprocess.Popen(words, cwd=REPOSITORY, env=environment, stderr=log) for words in commands]
        try:
            until(lambda: _is_registered(f"http://{collector}"), bool, seconds=120.0)
            yield f"http://{collector}"
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=60.0)


def _is_registered(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/v1/agents", timeout=10.0).json()["agents"])
    except (httpx.HTTPError, ValueError, KeyError):
        return False


def main() -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    for what, figure in measure(parser.parse_args().jobs).items():
        print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main()
