"""How often the verdict names the right ranks: on fresh simulated faults, beside torchfrtrace on dumps it can read.

The jobs, their faults and the rules by which the records suffice to name somebody: tests/build/simulation.
`python -m tests.bench.accuracy --help` says how to run more of it, and how to see and repeat what was misjudged.
"""

import argparse
import json
import secrets
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from tests.bench.torchfrtrace import Said, analyse
from tests.build.jobs.dumps import CASES, snapshots_of
from tests.build.simulation.faults import FAULTS
from tests.build.simulation.run import Semantics
from tests.build.simulation.scenario import Scenario, draw
from tests.build.simulation.truth import Judgement, judge

COMPARED = 500
ALONE = 2000


@dataclass(frozen=True)
class Outcome:
    """One analyser's answer to one case."""

    decidable: bool
    exact: bool
    kind_fits: bool = False
    innocents: int = 0
    failed: bool = False


@dataclass(frozen=True)
class Judged:
    """A scenario and what the verdict said of it."""

    scenario: Scenario
    answer: Diagnosis
    judgement: Judgement

    @property
    def outcome(self) -> Outcome:
        mine = self.judgement
        return Outcome(self.scenario.truth.decidable, mine.exact, mine.kind_fits, len(mine.innocents))

    @property
    def is_right(self) -> bool:
        told = self.judgement.exact and self.judgement.kind_fits
        return not self.judgement.innocents and (told or not self.scenario.truth.decidable)


def judged_scenario(
    seed: int,
    *,
    readable: bool = False,
    thinned: bool = False,
    faults: Sequence[str] = (),
    semantics: str | None = None,
) -> Judged:
    """Draw the scenario of `seed` and judge it."""
    scenario = draw(
        seed,
        faults=faults or tuple(FAULTS),
        semantics=None if semantics is None else Semantics(semantics),
        readable=readable,
        thinned=thinned,
    )
    answer = diagnose(scenario.dumps, scenario.expected)
    return Judged(scenario, answer, judge(answer, scenario.truth))


def compare(first_seed: int, number: int) -> dict[str, dict[str, list[Outcome]]]:
    """Give the same dumps to both analysers. Returns analyser -> fault -> outcomes."""
    outcomes: dict[str, dict[str, list[Outcome]]] = {"unhang": defaultdict(list), "torchfrtrace": defaultdict(list)}
    with tempfile.TemporaryDirectory() as name:
        ours = [judged_scenario(seed, readable=True) for seed in range(first_seed, first_seed + number)]
        directories = [_written(one.scenario, Path(name) / str(one.scenario.seed)) for one in ours]
        theirs = analyse(directories)
    for one, said in zip(ours, theirs, strict=True):
        fault = one.scenario.injected.fault
        outcomes["unhang"][fault].append(one.outcome)
        outcomes["torchfrtrace"][fault].append(_outcome_of(said, one.scenario))
    return outcomes


def _written(scenario: Scenario, directory: Path) -> Path:
    directory.mkdir()
    for rank, data in scenario.files.items():
        (directory / f"trace_{rank}").write_bytes(data)
    return directory


def _outcome_of(said: Said, scenario: Scenario) -> Outcome:
    """It counts as exact where all of its messages together, or its first, name the culprits and nobody else."""
    truth = scenario.truth
    fine = (truth.culprits, truth.culprits | truth.allowed)
    exact = said.failure is None and (said.blamed in fine or said.messages[:1] == (truth.culprits,))
    innocents = said.blamed - truth.culprits - truth.allowed - truth.silent
    return Outcome(truth.decidable, exact, innocents=len(innocents), failed=said.failure is not None)


def on_cases() -> list[str]:
    """Both analysers on the recorded cases, as rows of a table."""
    truths = json.loads((CASES / "truth.json").read_text())
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for case in truths:
            directory = Path(name) / case
            directory.mkdir()
            for file in (CASES / case).iterdir():
                (directory / f"trace_{file.name.removeprefix('_dump_')}").write_bytes(file.read_bytes())
        theirs = analyse([Path(name) / case for case in truths])
    for (case, truth), said in zip(truths.items(), theirs, strict=True):
        answer = diagnose(snapshots_of(sorted((CASES / case).iterdir())), Expected())
        named = sorted({rank for finding in answer.findings for rank in finding.culprit_ranks})
        rows.append(f"| {case} | {truth['culprits']} | {named} | {said.failure or sorted(said.blamed)} |")
    return ["| case | at fault | unhang | torchfrtrace |", "| --- | --- | --- | --- |", *rows]


def comparison(outcomes: dict[str, dict[str, list[Outcome]]]) -> Iterator[str]:
    """The rows of `compare` as a table."""
    yield "| fault | cases | unhang: exact | innocents | torchfrtrace: exact | cases with innocents | failures |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    ours, theirs = outcomes["unhang"], outcomes["torchfrtrace"]
    for fault in [*sorted(ours), "all"]:
        mine, other = (list(chain(*each.values())) if fault == "all" else each[fault] for each in (ours, theirs))
        yield (
            f"| {fault} | {len(mine)} | {_exact(mine)} | {sum(o.innocents for o in mine)} | {_exact(other)} "
            f"| {sum(o.innocents > 0 for o in other)} | {sum(o.failed for o in other)} |"
        )


def _exact(outcomes: Iterable[Outcome]) -> str:
    decidable = [outcome for outcome in outcomes if outcome.decidable]
    return f"{sum(outcome.exact for outcome in decidable)} of {len(decidable)}"


def alone(cases: Iterable[Judged]) -> Iterator[str]:
    """Our own verdicts by fault and semantics, as a table."""
    tables: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for case in cases:
        mine = case.judgement
        decidable = case.scenario.truth.decidable
        for key in ((case.scenario.injected.fault, str(case.scenario.semantics)), ("~all", "")):
            tables[key].update(
                cases=1,
                decidable=int(decidable),
                exact=int(decidable and mine.exact),
                kind=int(decidable and mine.exact and mine.kind_fits),
                innocents=len(mine.innocents),
            )
    yield "| fault | semantics | cases | evidence suffices | exact | and an accepted kind | innocents |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for (fault, semantics), c in sorted(tables.items()):
        yield (
            f"| {fault.strip('~')} | {semantics} | {c['cases']} | {c['decidable']} | {c['exact']} | {c['kind']} "
            f"| {c['innocents']} |"
        )


def shown(case: Judged) -> str:
    """One misjudged case in three lines."""
    truth, mine = case.scenario.truth, case.judgement
    what = "INNOCENT" if mine.innocents else "MISSED" if not mine.exact else "KIND" if not mine.kind_fits else "RIGHT"
    said = "; ".join(
        f"{f.kind} {list(f.culprit_ranks)} {f.certainty}, group {f.group.name if f.group else '-'} {f.op} #{f.sequence}"
        for f in case.answer.findings
    )
    return (
        f"{what} {case.scenario}\n"
        f"    truth: {sorted(truth.culprits)} {sorted(truth.kinds)}, {'' if truth.decidable else 'un'}decidable: "
        f"{truth.why}; allowed {sorted(truth.allowed)}\n"
        f"    said: {case.answer.verdict}: {said or case.answer.headline}"
    )


def measure(compared: int = COMPARED, alone_cases: int = ALONE, first_seed: int | None = None) -> Iterator[str]:
    """Run the benchmark; gives the lines of its report."""
    seed = secrets.randbelow(10**6) * 10_000 if first_seed is None else first_seed
    yield f"Simulated faults from seed {seed}: {compared} for both analysers, {alone_cases} for unhang alone\n"
    yield from on_cases()
    yield ""
    yield from comparison(compare(seed, compared))
    yield ""
    yield from alone(judged_scenario(seed + compared + number) for number in range(alone_cases))
    yield ""
    yield "Several dumps lost, and members not told\n"
    yield from alone(judged_scenario(seed + number, thinned=True) for number in range(alone_cases))


def main() -> int:
    """See --help."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=COMPARED, help="simulated faults that both analysers judge")
    parser.add_argument("--alone", type=int, default=ALONE, help="simulated faults that unhang judges alone")
    parser.add_argument("--seed", type=int, help="of the first case; default: a fresh one, printed")
    parser.add_argument("--failures", action="store_true", help="judge --alone cases and print those misjudged")
    parser.add_argument("--case", type=int, help="judge the one case with this seed and print it")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="with --failures or --case: this fault only")
    parser.add_argument("--semantics", choices=["nccl", "gloo"], help="the same for semantics")
    asked = parser.parse_args()
    lines: Iterable[str]
    if asked.failures or asked.case is not None:
        seed = asked.case if asked.case is not None else asked.seed or 0
        number = 1 if asked.case is not None else asked.alone
        chosen = [asked.fault] if asked.fault else []
        cases = [judged_scenario(seed + i, faults=chosen, semantics=asked.semantics) for i in range(number)]
        wrong = [case for case in cases if not case.is_right or asked.case is not None]
        lines = [*map(shown, wrong), *alone(cases)]
    else:
        lines = measure(asked.faults, asked.alone, asked.seed)
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
