"""How many next steps are absurd, and how many acts are right, by rule: of what others have recorded, of our own, and
of simulated jobs.

`python -m tests.bench.advice ../shared` asks about each case there and runs every printed command as printed; without a
place it takes what this project holds. It fails where a single step breaks a rule (`tests/build/jobs/advice_rules.py`),
where a node is left out wrongly, and where fewer than nine tenths of the acts are right (`tests/build/jobs/acts.py`).
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
from typing import Any

from click.testing import CliRunner, Result

from cli.main import unhang
from shared.answer.diagnosis import Diagnosis
from tests.bench.accuracy import judged_scenario
from tests.build.jobs.acts import Mark, mark_of
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
_GOOD = 0.9
_SIMULATED = 300
_ENDS_WELL = frozenset({0, 10, 11, 12})
_BACKENDS = ("gloo", "nccl", "mpi", "xccl", "ucc")


@dataclass(frozen=True)
class Case:
    """A directory of evidence, and the times that its files had."""

    name: str
    directory: Path
    written_ns: tuple[tuple[str, int], ...] = ()
    truth: Mapping[str, Any] | None = None
    """What is truly so: `kinds`, `causes`, `hosts`; None: it is not known."""


def foreign(place: Path) -> Iterator[Case]:
    """The cases beside the project."""
    truths: Mapping[str, Mapping[str, Any]] = json.loads((place / "foreign/truth.json").read_text())
    incidents = place / "incidents/evidence"
    told = {
        name: truth for file in incidents.glob("truth-?.json") for name, truth in json.loads(file.read_text()).items()
    }
    for each in sorted(incidents.iterdir()):
        if each.is_dir():
            yield Case(f"incidents/{each.name}", each, truth=told.get(each.name))
    for name, truth in truths.items():
        yield Case(f"foreign/{name}", place / "foreign" / name, tuple(truth.get("written_ns", {}).items()), truth)


def recorded() -> Iterator[Case]:
    """The cases of this project."""
    for folder in (CASES, GLOO):
        yield from (Case(f"{folder.name}/{each.name}", each) for each in sorted(folder.iterdir()) if each.is_dir())


def ask(*words: str) -> Result:
    """Run `unhang` in this process, as its words say."""
    return CliRunner().invoke(unhang, words, catch_exceptions=True)


def absurd(case: Case) -> tuple[Case, Diagnosis | None, list[Complaint]]:
    """Ask about a case; returns the answer, and what is absurd about its steps."""
    with tempfile.TemporaryDirectory(prefix="a job's ") as scratch:  # a path that has to be quoted
        place = shutil.copytree(case.directory, Path(scratch, "input"))
        for name, ns in case.written_ns:
            os.utime(place / name, ns=(ns, ns))
        said = ask("diagnose", "--json", "--from", str(place))
        if said.exit_code not in _ENDS_WELL:
            return case, None, [Complaint("no answer", None, f"{said.exit_code}: {said.output[-300:]}")]
        answer = Diagnosis.model_validate_json(said.stdout)
        held = "".join(each.read_bytes().decode("latin-1") for each in place.rglob("*") if each.is_file())
        backends = frozenset(name for name in _BACKENDS if name in held)
        found = list(complaints(answer, Situation(("--from", str(place)), live=False, backends=backends)))
        return case, answer, [*found, *_run(answer)]


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


def measure(cases: Sequence[Case]) -> Counter[str]:
    """Count what is absurd, by rule, and print it."""
    count, steps, touched, marks = Counter[str](), 0, set(), Counter[Mark]()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for case, answer, found in pool.map(absurd, cases, chunksize=4):
            steps += 0 if answer is None else _steps_in(answer)
            for each in found:
                count[each.rule] += 1
                touched.add(case.name)
                print(f"{case.name}: {each}")
            if answer is not None and case.truth is not None:
                marks[_marked(case.name, answer, case.truth)] += 1
    if not _are_good(marks):
        count["acts"] += 1
    for rule, number in count.most_common():
        print(f"{number:5}  {rule}")
    print(
        f"{count.total()} complaints about {steps} steps of {len(cases)} cases; {len(touched)} cases have one",
        flush=True,
    )
    return count


def _marked(name: str, answer: Diagnosis, truth: Mapping[str, Any]) -> Mark:
    mark = mark_of(answer, truth["kinds"], truth.get("causes", ()), truth.get("hosts", ()))
    if mark in (Mark.WRONG, Mark.EXCLUDES):
        assert answer.action is not None
        print(f"{name}: {mark}: {answer.action.do} ({answer.action.text}) of {answer.headline}")
    return mark


def _are_good(marks: Counter[Mark]) -> bool:
    decided = marks[Mark.RIGHT] + marks[Mark.WRONG] + marks[Mark.EXCLUDES]
    print(
        f"acts: {marks[Mark.RIGHT]} of {decided} right, {marks[Mark.EXCLUDES]} exclude wrongly, {marks[Mark.OPEN]} open"
    )
    return not marks[Mark.EXCLUDES] and marks[Mark.RIGHT] >= _GOOD * decided


def simulated(number: int) -> bool:
    """Are the acts good about so many simulated faults?"""
    marks = Counter[Mark]()
    for seed in range(number):
        judged = judged_scenario(seed)
        truth = {"kinds": judged.scenario.truth.kinds}
        marks[_marked(f"seed {seed}, {judged.scenario.injected.fault}", judged.answer, truth)] += 1
    return _are_good(marks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask about all cases; 1 where a step is absurd."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("place", type=Path, nargs="?", help="the directory that holds foreign/ and incidents/")
    place = options.parse_args(arguments).place
    absurdities = measure([*recorded(), *(() if place is None else foreign(place.resolve()))])
    return int(not simulated(_SIMULATED) or bool(absurdities))


if __name__ == "__main__":
    sys.exit(main())
