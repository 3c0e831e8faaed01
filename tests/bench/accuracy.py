"""How often the verdict names the right ranks, on fresh simulated faults.

The jobs, their faults and the rules by which the records suffice to name somebody: tests/build/simulation.
`python -m tests.bench.accuracy --help` says how to run more of it, and how to see and repeat what was misjudged.
"""

import argparse
import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from tests.build.simulation.faults import FAULTS
from tests.build.simulation.run import Semantics
from tests.build.simulation.scenario import Scenario, draw
from tests.build.simulation.truth import Judgement, judge

CASES = 2000


@dataclass(frozen=True)
class Judged:
    """A scenario and what the verdict said of it."""

    scenario: Scenario
    answer: Diagnosis
    judgement: Judgement

    @property
    def is_right(self) -> bool:
        told = self.judgement.exact and self.judgement.kind_fits
        return not self.judgement.innocents and (told or not self.scenario.truth.decidable)


def judged_scenario(
    seed: int,
    *,
    thinned: bool = False,
    faults: Sequence[str] = (),
    semantics: str | None = None,
) -> Judged:
    """Draw the scenario of `seed` and judge it."""
    scenario = draw(
        seed,
        faults=faults or tuple(FAULTS),
        semantics=None if semantics is None else Semantics(semantics),
        thinned=thinned,
    )
    answer = diagnose(scenario.dumps, scenario.expected)
    return Judged(scenario, answer, judge(answer, scenario.truth))


def table(cases: Iterable[Judged]) -> Iterator[str]:
    """The verdicts by fault and semantics."""
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


def measure(cases: int = CASES, first_seed: int | None = None) -> Iterator[str]:
    """Run the benchmark; gives the lines of its report."""
    seed = secrets.randbelow(10**6) * 10_000 if first_seed is None else first_seed
    yield f"{cases} simulated faults from seed {seed}\n"
    yield from table(judged_scenario(seed + number) for number in range(cases))
    yield ""
    yield "Several dumps lost, and members not told\n"
    yield from table(judged_scenario(seed + number, thinned=True) for number in range(cases))


def main() -> int:
    """See --help."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES, help="how many simulated faults")
    parser.add_argument("--seed", type=int, help="of the first case; default: a fresh one, printed")
    parser.add_argument("--failures", action="store_true", help="judge --cases and print those misjudged")
    parser.add_argument("--case", type=int, help="judge the one case with this seed and print it")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="with --failures or --case: this fault only")
    parser.add_argument("--semantics", choices=["nccl", "gloo"], help="the same for semantics")
    asked = parser.parse_args()
    lines: Iterable[str]
    if asked.failures or asked.case is not None:
        seed = asked.case if asked.case is not None else asked.seed or 0
        number = 1 if asked.case is not None else asked.cases
        chosen = [asked.fault] if asked.fault else []
        cases = [judged_scenario(seed + i, faults=chosen, semantics=asked.semantics) for i in range(number)]
        wrong = [case for case in cases if not case.is_right or asked.case is not None]
        lines = [*map(shown, wrong), *table(cases)]
    else:
        lines = measure(asked.cases, asked.seed)
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
