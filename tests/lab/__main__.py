"""Run hangs on nccl without a GPU, and print who was right: `python -m tests.lab [--version V] [SCENARIO ...]`."""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deploy.lab.environment import NEWEST, OF_FRAMEWORKS, Environment, NoLab, NoVersion, make
from deploy.layouts.wheels import Installed
from shared.rank_sets import fold
from tests.lab.forks import Forks
from tests.lab.node import container, tell
from tests.lab.rings import COLUMNS, NO_RECORD, UNFINISHED, compare
from tests.lab.scenarios import SCENARIOS, Scenario
from tests.lab.tables import merge
from tests.system.live.asking import NoAnswer, diagnosed
from tests.system.live.jobs import JobFailed
from tests.system.live.truths import named

_COLUMNS = "{:>6} {:34} {:26} {:9} {:22} {:14} {:9} {:10} {:>6}  {}"
_OUTCOMES = ("right", "silent", "wrong")
_STILL_SECONDS = 1.0
"""For so long no device has begun anything when a job has reached its last place: its ranks may spin there."""
_SETTLES_SECONDS = 20.0


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say, in a container where that is possible; 0 where every answer was right."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Hangs on nccl, without a GPU.")
    parser.add_argument("scenarios", nargs="*", help="part of a name, or =NAME; all without any")
    parser.add_argument("--all", action="store_true", help="the rest of the zoo, too")
    parser.add_argument("--records", action="store_true", help="read records and groups alone")
    parser.add_argument("--alarms", type=int, default=0, metavar="N", help="N hangs, before the watchdog ends them")
    parser.add_argument("--watch", action="store_true", help="these beside `unhang watch` alone")
    parser.add_argument("--write", action="store_true", help="write it into docs/layouts.md and docs/makers/nccl.md")
    parser.add_argument("--version", action="append", dest="versions", help=f"of PyTorch ({NEWEST})")
    parser.add_argument("--nccl", type=Path, help="a libnccl built to use CUDA's runtime as a shared library")
    chosen = parser.parse_args(arguments)
    if os.getpid() != 1 and (within := container()):  # others' jobs on this machine are none of it
        sys.stderr.write("lab: in a container, with processes of its own\n")
        return _interruptible(lambda: subprocess.call((*within, sys.executable, "-m", "tests.lab", *arguments)))
    return _interruptible(lambda: sum(_version(version, chosen) for version in chosen.versions or [NEWEST]) and 1)


def _interruptible(run: Callable[[], int]) -> int:
    try:
        return run()
    except KeyboardInterrupt:
        sys.exit("lab: interrupted")


def _version(version: str, chosen: argparse.Namespace) -> int:
    """Run what was chosen with one PyTorch, print it, and return how much was wrong."""
    wrong = 0
    try:
        environment = _made(version, chosen)
    except NoLab as error:
        sys.exit(f"lab: {error}")
    version = environment.folder.name
    print(f"\nPyTorch {version}", flush=True)
    if chosen.alarms:
        from tests.lab import alarms  # with services, which need more than the rest of the lab

        parts = chosen.scenarios or [f"={name}" for name in alarms.WATCHED]
        with Forks(environment, nice=10) as forks:
            hung = [one for one in SCENARIOS if one.is_chosen(parts)]
            return alarms.run(hung, environment, forks, chosen.alarms, watch=chosen.watch)
    if not chosen.scenarios:
        wrong += _records(environment, Installed(environment.site).version, keep=chosen.write)
    if chosen.records:
        return wrong
    scenarios = [one for one in SCENARIOS if chosen.all or one.is_chosen(chosen.scenarios)]
    if not scenarios:
        sys.exit(f"lab: no scenario's name contains {' or '.join(chosen.scenarios)}")
    print(_COLUMNS.format("", *"scenario expected verdict kind cause culprit certainty s wrong".split()), flush=True)
    told: dict[str, str] = {}
    with Forks(environment) as forks:
        for number, scenario in enumerate(scenarios, start=1):
            told[scenario.name] = _run(scenario, environment, forks, f"{number}/{len(scenarios)}")
    print("\n" + ", ".join(f"{list(told.values()).count(outcome)} {outcome}" for outcome in _OUTCOMES), flush=True)
    if chosen.write:
        merge("makers/nccl.md", "scenario", {name: {version: outcome} for name, outcome in told.items()})
    return wrong + sum(outcome == "wrong" for outcome in told.values())


def _made(version: str, chosen: argparse.Namespace) -> Environment:
    """Make its environment; where nobody has asked for a version and pip does not give the newest, that of another."""
    try:
        return make(version, chosen.nccl)
    except NoVersion as error:
        if chosen.versions:
            raise
        print(f"lab: {error}\nlab: {OF_FRAMEWORKS} in its place", file=sys.stderr, flush=True)
        return make(OF_FRAMEWORKS, chosen.nccl)


def _run(scenario: Scenario, environment: Environment, forks: Forks, number: str) -> str:
    """Run one scenario, print its row, and return whether the answer was right, silent or wrong."""
    truth = scenario.truth
    expected = f"{'/'.join(truth.kinds) or '/'.join(truth.verdicts)}"[:20] + f" [{fold(truth.culprits)}]"
    started = time.monotonic()
    answer: dict[str, Any] = {"verdict": "-", "findings": []}
    with tempfile.TemporaryDirectory() as folder:
        try:
            with scenario.job(environment, Path(folder), forks) as job:
                _settle(Path(folder))
                gpus = scenario.gpus
                reads = None if gpus is None else tell(environment, Path(folder), gpus, scenario.kernel)
                asked = time.monotonic()
                reply = diagnosed(job, patience=None, environment=reads)
            started, answer = asked, reply.answer
            wrong = truth.disagreements(answer, reply.status)
        except (JobFailed, NoAnswer) as error:
            wrong = [str(error)[-1500:]]
    # On a device nobody waits in the call itself, but where the step ends.
    wrong = [what for what in wrong if not what.startswith("the culprit is in end_step")]
    first: dict[str, Any]
    first = answer["findings"][0] if answer["findings"] else {"kind": "", "cause": "", "certainty": "", "culprits": ()}
    culprits = fold(each["rank"] for each in first["culprits"])
    told = (answer["verdict"], first["kind"], first["cause"], culprits, first["certainty"])
    took = f"{time.monotonic() - started:.0f}"
    print(_COLUMNS.format(number, scenario.name, expected, *told, took, "; ".join(wrong)), flush=True)
    if os.environ.get("LAB_SHOWS"):
        evidence = [f"{one['kind']}: {one['text']}" for found in answer["findings"] for one in found["evidence"]]
        print(answer.get("headline"), *evidence, *(answer.get("remarks") or ()), sep="\n    ", flush=True)
    silent = answer["verdict"] == "cannot_tell" or (answer["verdict"] == "hung" and truth.culprits)
    if silent and "hung" in truth.verdicts and not named(answer):
        return "silent"
    return "wrong" if wrong else "right"


def _records(environment: Environment, version: str, *, keep: bool) -> int:
    """Read records, group and stack of a rank of this PyTorch; return how many differ from what it says itself."""
    with tempfile.TemporaryDirectory() as folder:
        found = dict(compare(environment, Path(folder)))
    told = {column: found.get(column, "not looked at") or "right" for column in COLUMNS}
    print("read back:", "; ".join(f"{column} {what}" for column, what in told.items()), flush=True)
    if keep:
        merge("layouts.md", "PyTorch read", {version: told})
    return sum(what not in ("right", NO_RECORD, UNFINISHED) for what in told.values())


def _settle(folder: Path) -> None:
    """Wait until the files in which communicators meet do not change any more."""
    seen: tuple[bytes, ...] = ()
    since = begun = time.monotonic()
    while (now := time.monotonic()) < min(since + _STILL_SECONDS, begun + _SETTLES_SECONDS):
        time.sleep(0.2)
        found = tuple(hashlib.blake2b(file.read_bytes()).digest() for file in sorted(folder.glob("lab-nccl-*")))
        since, seen = (since, seen) if found == seen else (now, found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
