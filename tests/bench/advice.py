"""How many next steps are absurd, by rule: of what others have recorded, of our own, and of simulated jobs.

`python -m tests.bench.advice ../shared` asks about each case there and runs every printed command as printed; without a
place it takes what this project holds. It fails where a single step breaks a rule (`tests/build/jobs/advice_rules.py`).
"""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from cli.main import unhang
from shared.answer.diagnosis import Diagnosis
from tests.build.jobs.advice_rules import Complaint, Situation, complaints
from tests.build.jobs.dumps import CASES, GLOO

_SHOWS_NOTHING = (
    "no stack could be read",
    "no flight record names",
    "no log has any lines",
    "nothing could be checked",
    "no jobs were found",
    "no descriptor",
)
_ENDS_WELL = frozenset({0, 10, 11, 12})
_BACKENDS = ("gloo", "nccl", "mpi", "xccl", "ucc")


@dataclass(frozen=True)
class Case:
    """A directory of evidence, and the times that its files had."""

    name: str
    directory: Path
    written_ns: tuple[tuple[str, int], ...] = ()


def foreign(place: Path) -> Iterator[Case]:
    """The cases beside the project."""
    truths: Mapping[str, Mapping[str, Mapping[str, int]]] = json.loads((place / "foreign/truth.json").read_text())
    for each in sorted((place / "incidents/evidence").iterdir()):
        if each.is_dir():
            yield Case(f"incidents/{each.name}", each)
    for name, truth in truths.items():
        yield Case(f"foreign/{name}", place / "foreign" / name, tuple(truth.get("written_ns", {}).items()))


def recorded() -> Iterator[Case]:
    """The cases of this project."""
    for folder in (CASES, GLOO):
        yield from (Case(f"{folder.name}/{each.name}", each) for each in sorted(folder.iterdir()) if each.is_dir())


def ask(*words: str) -> Result:
    """Run `unhang` in this process, as its words say."""
    return CliRunner().invoke(unhang, words, catch_exceptions=True)


def absurd(case: Case) -> tuple[str, int, list[Complaint]]:
    """Ask about a case; returns its name, the number of its steps, and what is absurd about them."""
    with tempfile.TemporaryDirectory(prefix="a job's ") as scratch:  # a path that has to be quoted
        place = shutil.copytree(case.directory, Path(scratch, "input"))
        for name, ns in case.written_ns:
            os.utime(place / name, ns=(ns, ns))
        said = ask("diagnose", "--json", "--from", str(place))
        if said.exit_code not in _ENDS_WELL:
            return case.name, 0, [Complaint("no answer", None, f"{said.exit_code}: {said.output[-300:]}")]
        answer = Diagnosis.model_validate_json(said.stdout)
        held = "".join(each.read_bytes().decode("latin-1") for each in place.rglob("*") if each.is_file())
        backends = frozenset(name for name in _BACKENDS if name in held)
        found = list(complaints(answer, Situation(("--from", str(place)), live=False, backends=backends)))
        return case.name, _steps_in(answer), [*found, *_run(answer)]


def _steps_in(answer: Diagnosis) -> int:
    return len(answer.next_steps) + sum(len(finding.next_steps) for finding in answer.findings)


def _run(answer: Diagnosis) -> Iterator[Complaint]:
    """Run the commands of an answer about files: each shows something."""
    for step in (*answer.next_steps, *(each for finding in answer.findings for each in finding.next_steps)):
        words = shlex.split(step.command or "")
        if words[:1] != ["unhang"] or "--from" not in words:
            continue
        shown = ask(*words[1:])
        if shown.exit_code not in _ENDS_WELL:
            yield Complaint("does not run", step, f"exit {shown.exit_code}: {shown.output[-200:]}")
        elif shown.output.startswith(_SHOWS_NOTHING):
            yield Complaint("shows nothing", step, shown.output.splitlines()[0])


def measure(cases: Sequence[Case], *, show: bool = True) -> Counter[str]:
    """Count what is absurd, by rule, and print it."""
    count, steps, touched = Counter[str](), 0, set()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name, told, found in pool.map(absurd, cases, chunksize=4):
            steps += told
            for each in found:
                count[each.rule] += 1
                touched.add(name)
                if show:
                    print(f"{name}: {each}")
    for rule, number in count.most_common():
        print(f"{number:5}  {rule}")
    print(
        f"{count.total()} complaints about {steps} steps of {len(cases)} cases; {len(touched)} cases have one",
        flush=True,
    )
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask about all cases; 1 where a step is absurd."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("place", type=Path, nargs="?", help="the directory that holds foreign/ and incidents/")
    place = options.parse_args(arguments).place
    return int(bool(measure([*recorded(), *(() if place is None else foreign(place.resolve()))])))


if __name__ == "__main__":
    sys.exit(main())
