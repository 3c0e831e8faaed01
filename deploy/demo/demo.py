"""Hangs a real 4-rank training job, asks a collector and two agents about it over REST, and shows the verdict."""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from deploy.demo.stage import Stage, free_ports

UNHANG = str(Path(sys.executable).parent / "unhang")
TRAIN = Path(__file__).with_name("train.py")
FAULTS = "asleep wrong-op wrong-size recv-ring crossed-groups stopped killed dataloader slow healthy".split()
"""As in train.py, which is not imported here because it imports torch."""

RANKS = 4
LAST_GOOD_STEP = 4
START_SECONDS = 90.0
QUIET_SECONDS = 3.0
ASK_SECONDS = 60.0


class DemoFailed(Exception):
    """Something did not come up or did not answer."""


@dataclass(frozen=True)
class Scene:
    """What runs: the job's name and the addresses of the services."""

    job: str
    collector: str
    agents: tuple[str, ...]


_started = time.monotonic()


def say(text: str) -> None:
    """Print one line of progress, with the time since the start."""
    print(f"[{time.monotonic() - _started:5.1f}s] {text}", flush=True)


def start_services(stage: Stage, job: str) -> Scene:
    """Start two agents, each for two ranks as if on two nodes, and the collector that asks them."""
    collector, *agents = (f"127.0.0.1:{port}" for port in free_ports(3))
    for number, (agent, ranks) in enumerate(zip(agents, ("0-1", "2-3"), strict=True)):
        stage.start(f"agent-{number}", (UNHANG, "agent", "--listen", agent, "--only-ranks", ranks))
    store = str(stage.folder / "diagnoses.sqlite")
    options = ("--listen", collector, "--agents", ",".join(agents), "--store", store)
    stage.start("collector", (UNHANG, "collector", *options))
    return Scene(job, f"http://{collector}", tuple(f"http://{agent}" for agent in agents))


def start_job(stage: Stage, fault: str, rank: int) -> tuple[str, list[Path]]:
    """Start the job under `unhang run`; return its name and the files that take its output."""
    script = (str(TRAIN), "--fault", fault, "--rank", str(rank))
    common = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if fault == "killed":
        return start_without_torchrun(stage, script, common)
    job = f"demo-{os.getpid()}"
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS))
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", job)
    address = ("--local-addr", "127.0.0.1")
    return job, [stage.start("job", (UNHANG, "run", "--", *torchrun, *meeting, *address, *script), common)]


def start_without_torchrun(stage: Stage, script: tuple[str, ...], common: dict[str, str]) -> tuple[str, list[Path]]:
    """Start each rank by itself: torchrun would end all ranks as soon as one is killed."""
    (port,) = free_ports(1)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    logs = []
    for rank in range(RANKS):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS)}
        command = (UNHANG, "run", "--", sys.executable, *script)
        logs.append(stage.start(f"rank-{rank}", command, {**common, **meeting, **own}))
    return f"127.0.0.1:{port}", logs


def wait_until(what: str, is_so: Callable[[], bool], stage: Stage) -> None:
    """Wait for something to become true. Raises DemoFailed when it does not in time, or something has ended."""
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if ended := stage.ended():
            raise DemoFailed(f"ended too early, with these exit codes: {ended}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"{what}: not after {START_SECONDS:.0f} s")
        time.sleep(0.2)
    say(what)


def answers(address: str) -> bool:
    """Does the service there say that it is well?"""
    try:
        return httpx.get(f"{address}/healthz", timeout=2.0, verify=False).is_success
    except httpx.TransportError:
        return False


def has_trained(logs: list[Path]) -> bool:
    """Has every rank got as far as the last step before the fault?"""
    text = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
    return len(set(re.findall(rf"rank (\d+) step {LAST_GOOD_STEP} ", text))) == RANKS


def watch(logs: list[Path]) -> None:
    """Give the job time to hang, and say whether it still prints."""
    before = [log.stat().st_size for log in logs]
    time.sleep(QUIET_SECONDS)
    quiet = before == [log.stat().st_size for log in logs]
    say(f"the job {'has printed nothing' if quiet else 'still prints'}, after {QUIET_SECONDS:.0f} s of watching")


def diagnose(scene: Scene) -> tuple[dict[str, Any], str]:
    """Ask for a diagnosis, as a bot would; return it and its text for people."""
    with httpx.Client(base_url=scene.collector, timeout=ASK_SECONDS + 30.0) as client:
        say(f"POST {scene.collector}/v1/jobs/{scene.job}/diagnoses?wait={ASK_SECONDS:.0f}")
        answer = client.post(f"/v1/jobs/{scene.job}/diagnoses", params={"wait": f"{ASK_SECONDS:.0f}"})
        if answer.status_code not in (200, 201):
            raise DemoFailed(f"the collector says {answer.status_code}: {answer.text}")
        diagnosis: dict[str, Any] = answer.json()
        text = client.get(f"/v1/diagnoses/{diagnosis['id']}", headers={"Accept": "text/plain"})
        text.raise_for_status()
    say(f"answered: {diagnosis['verdict']}")
    return diagnosis, text.text


def show_more(scene: Scene, diagnosis: dict[str, Any], stage: Stage, keep: bool) -> None:
    """Print how to ask more, and where."""
    here = f"{scene.job} --collector {scene.collector}"
    print("\nAsk more:" if keep else "\nAsk more (`make demo KEEP=1` leaves everything running):")
    print(f"  {UNHANG} diagnose {here}")
    for question in ("stacks", "sequences", "fds", "logs"):
        print(f"  {UNHANG} {question} {here}")
    print(f"  curl {scene.collector}/v1/diagnoses/{diagnosis['id']}")
    print(f"  curl -H 'Accept: text/markdown' {scene.collector}/v1/diagnoses/{diagnosis['id']}")
    if keep:
        print(f"\nCollector {scene.collector}, its API in a browser {scene.collector}/docs")
        print(f"Agents    {'  '.join(scene.agents)}")
        print(f"Logs      {stage.folder}")
        print(f"Stop all  {sys.executable} {Path(__file__)} --stop {stage.folder}")


def play(stage: Stage, fault: str, rank: int, keep: bool) -> None:
    """Run the demonstration from beginning to end. Raises DemoFailed."""
    say(f"starting a {RANKS}-rank job with the fault `{fault}` at rank {rank}, two agents and a collector")
    job, logs = start_job(stage, fault, rank)
    scene = start_services(stage, job)
    for address in (*scene.agents, scene.collector):
        wait_until(f"up: {address}", partial(answers, address), stage)
    wait_until(f"all {RANKS} ranks have trained {LAST_GOOD_STEP + 1} steps", partial(has_trained, logs), stage)
    watch(logs)
    diagnosis, text = diagnose(scene)
    print(f"\n{text.rstrip()}")
    show_more(scene, diagnosis, stage, keep)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C: with everything stopped."""
    raise KeyboardInterrupt


def run(fault: str, rank: int, keep: bool) -> int:
    """Play, clean up whatever happens, and return the exit status."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="unhang-demo-")))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    status = 130
    try:
        status = attempt(stage, fault, rank, keep)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        if status != 0 or not keep:
            stage.stop()
            say("everything is stopped")
        if status != 1 and not keep:
            shutil.rmtree(stage.folder)
    return status


def attempt(stage: Stage, fault: str, rank: int, keep: bool) -> int:
    """Play, and return the exit status; of a failure, show what is known."""
    try:
        play(stage, fault, rank, keep)
    except (DemoFailed, httpx.HTTPError) as error:
        print(f"\nThe demonstration failed: {error}\nLogs: {stage.folder}", file=sys.stderr)
        show_logs(stage.folder)
        return 1
    if keep:
        stage.leave()
    return 0


def show_logs(folder: Path) -> None:
    """Print the end of each log."""
    for log in sorted(folder.glob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        print(f"--- {log.name}", *lines, sep="\n", file=sys.stderr)


def main() -> int:
    """Read the wishes and play, or stop what an earlier run has left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, default="asleep", help="what goes wrong (default: %(default)s)")
    parser.add_argument("--rank", type=int, choices=range(RANKS), default=2, help="where (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    parser.add_argument("--stop", type=Path, metavar="FOLDER", help="stop what a run with --keep has left")
    arguments = parser.parse_args()
    if arguments.stop is not None:
        Stage.left(arguments.stop).stop()
        shutil.rmtree(arguments.stop)
        return 0
    return run(arguments.fault, arguments.rank, arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
