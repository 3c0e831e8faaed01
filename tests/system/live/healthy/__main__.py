"""Look at healthy jobs, five times each, and print what was said: `python -m tests.system.live.healthy`.

Names of programs as arguments choose some; `--unhang DIR` asks another checkout; `--fast` takes its looks within half
a minute. The exit status is 0 where nothing was called hung, and nobody named who holds nobody up.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.live.healthy.environment import BUILD, missing, python_of_others
from tests.system.live.healthy.others import others
from tests.system.live.healthy.programs import OURS, Program, filled, own_programs
from tests.system.live.healthy.table import Outcome, summary, table
from tests.system.live.truths import REPOSITORY

MOMENTS = (3.0, 8.0, 20.0, 65.0, 130.0)
FAST = (2.0, 5.0, 9.0, 20.0, 40.0)
AWAY = (0.8, 1.25)
"""By what a moment is multiplied at random: nobody chooses when he is called."""

AFTER_LAST_SECONDS = 600.0
"""How long others wait for the last look to be answered: it may take a minute of patience on a busy machine."""
CONTAINER = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")


@dataclass(frozen=True)
class Asker:
    """Whom to ask, and when."""

    checkout: Path
    runs: Path
    moments: Sequence[float]
    options: Sequence[str]
    random: random.Random

    def look_at(self, program: Program) -> Outcome:
        """Run one program in a container of its own, and look at it."""
        folder = self.runs / program.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        seconds = self.moments[-1] * AWAY[1] + AFTER_LAST_SECONDS
        order = self._order(program, folder, seconds)
        if program.prepare:
            prepare = filled(program.prepare, folder=folder, seconds=seconds, python=_python_of(program))
            subprocess.run(["bash", "-c", prepare], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (folder / "order.json").write_text(json.dumps(order))
        python, looking = self.checkout / ".venv" / "bin" / "python", Path(__file__).with_name("looking.py")
        command = [*CONTAINER, str(python), str(looking), str(folder / "order.json")]
        environment = {**os.environ, "PYTHONPATH": str(self.checkout)}
        subprocess.run(command, cwd=self.checkout, env=environment, check=False)
        return self.outcome_of(program)

    def outcome_of(self, program: Program) -> Outcome:
        """Return what became of a program that has run."""
        result = self.runs / program.name / "result.json"
        read: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {"looks": [], "status": "none"}
        return Outcome(program, read)

    def _order(self, program: Program, folder: Path, seconds: float) -> dict[str, Any]:
        def fill(text: str) -> str:
            return filled(text, folder=folder, seconds=seconds, python=_python_of(program))

        own = {
            "HEALTHY_SECONDS": str(seconds),
            "HEALTHY_FOLDER": str(folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "GLOO_SOCKET_IFNAME": "lo"}
        return {
            "folder": str(folder),
            "command": fill(program.command),
            "environment": {**own, **offline, **{name: fill(value) for name, value in program.environment.items()}},
            "waits_from": program.waits_from,
            "jobs": program.jobs,
            "moments": [moment * self.random.uniform(*AWAY) for moment in self.moments],
            "options": list(self.options),
        }


def _python_of(program: Program) -> str:
    """Return the Python that has what a program of others needs, or ours."""
    return sys.executable if program.origin == OURS else python_of_others()


def main(arguments: Sequence[str]) -> int:
    """Look at what the arguments say, or print the table of what has been looked at."""
    chosen = _parser().parse_args(arguments)
    of = {"ours": (True,), "others": (False,), None: (True, False)}[chosen.of]
    programs = [each for each in (*own_programs(), *others()) if (each.origin == OURS) in of]
    programs = [each for each in programs if not chosen.programs or each.name in chosen.programs]
    moments = FAST if chosen.fast else MOMENTS
    runs = BUILD / "runs" / chosen.runs
    asker = Asker(chosen.unhang.resolve(), runs, moments, shlex.split(chosen.options), random.Random(chosen.seed))
    if not chosen.table:
        if any(each.origin != OURS for each in programs):
            python_of_others()
            print(*missing(), sep="\n", end="")
        _look_at_all(asker, programs, at_once=chosen.at_once)
    runs.mkdir(parents=True, exist_ok=True)
    outcomes = [asker.outcome_of(program) for program in programs if (runs / program.name).exists()]
    (runs / "table.md").write_text(table(outcomes))
    print(f"\n{summary(outcomes)}\nseed {chosen.seed}, table in {runs / 'table.md'}")
    return int(any(outcome.failed or outcome.wrong() for outcome in outcomes))


def _look_at_all(asker: Asker, programs: Sequence[Program], *, at_once: int) -> None:
    """Print what becomes of each program once that is known."""
    with ThreadPoolExecutor(at_once) as pool:
        for done in as_completed([pool.submit(asker.look_at, program) for program in programs]):
            print(done.result(), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.system.live.healthy", description=__doc__)
    parser.add_argument("programs", nargs="*", help="names; all of them without")
    parser.add_argument("--unhang", type=Path, default=REPOSITORY, help="the checkout whose unhang is asked")
    parser.add_argument("--fast", action="store_true", help="looks within a minute")
    parser.add_argument("--of", choices=("ours", "others"), help="only these")
    parser.add_argument("--options", default="", help="of `unhang diagnose`: on a busy machine '--timeout 90'")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of the moments")
    parser.add_argument("--at-once", type=int, default=2, help="programs at the same time")
    parser.add_argument("--runs", default="last", help="the folder in build/healthy/runs that keeps what was said")
    parser.add_argument("--table", action="store_true", help="run nothing, and make the table of what is kept")
    return parser


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main(sys.argv[1:]))
