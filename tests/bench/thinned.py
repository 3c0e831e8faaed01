"""How often less evidence makes a verdict worse: an innocent named, a culprit surer, a healthy job hung. It must not.

`python -m tests.bench.thinned [--seeds N] [--most M] [--zoo DIR]`. Parts of the evidence of simulated jobs are taken
away, of some ranks or of all (tests/build/jobs/thinned.py): hung ones at rest, and healthy ones whose nodes are looked
at within some seconds of each other, with a second look that may come late. `--zoo` takes bundles of real programs:
`DIR/PROGRAM.MODE/` holds what `unhang diagnose --save` wrote, and the truth is the program's own.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

from collector.align.expected import Expected
from collector.files.read_directory import read_recorded
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from tests.build.jobs.thinned import Case, Thinning, false_accusations, surer, thinned, thinnings
from tests.build.simulation.looks import LOADER, Watched, looked_at_later
from tests.build.simulation.run import BEGUN_NS
from tests.build.simulation.scenario import draw, draw_healthy
from tests.system.live.truths import Mode, Truth

_APART_NS = 12_000_000_000
"""Within which a slow fan-out looks at the nodes of a job."""
_LATEST_SECOND_LOOK_NS = 60_000_000_000


class Violation(NamedTuple):
    """What less evidence made worse."""

    what: str
    taken: Thinning
    headline: str

    def __str__(self) -> str:
        return f"{self.what} without {self.taken}: {self.headline}"


@dataclass
class Tried:
    """What came of one case."""

    number: int = 0
    violations: list[Violation] = field(default_factory=list)


def tried(case: Case, guilty: Collection[int], *, hangs: bool = True, most: int, seed: int = 0) -> Tried:
    """Take parts away; `guilty`: who may be named; `most`: sets of ranks for each kind of evidence."""
    before, done = diagnose(*case), Tried()
    for taken in thinnings(case.ranks, most=most, seed=seed):
        left = thinned(case, taken)
        answer = diagnose(*left)
        done.number += 1
        named = false_accusations(answer, guilty, set(case.ranks).difference(left.ranks))
        told = [f"names {sorted(named)}"] if named else []
        told += ["hung"] if not hangs and answer.verdict is Verdict.HUNG else []
        told += [f"surer of {sorted(more)}"] if (more := surer(answer, before)) else []
        done.violations += [Violation(what, taken, answer.headline) for what in told]
    return done


def hung_looks(seed: int) -> tuple[Case, frozenset[int]]:
    """Two looks at a simulated job that hangs, and one with native frames; and who may be named.

    Of every second one the ranks wait by `work.wait()`.
    """
    job = draw(seed)
    unrecorded = frozenset(job.layout.world.ranks) - job.given
    watched = Watched(job.run, job.layout, job.recorders, unrecorded, handles=bool(seed % 2))
    moments = looked_at_later(job.run)
    looks = (*watched.looks(moments), *watched.deeper(moments[-1] + 1_000_000_000))
    return Case(looks, Expected()), job.truth.culprits | job.truth.allowed


def healthy_looks(seed: int) -> Iterator[Case]:
    """A simulated job that is well, looked at twice: all nodes at once, within seconds, and the second time late."""
    job, random = draw_healthy(seed), Random(seed)
    watched = Watched(job.run, job.layout, job.recorders, works_with=LOADER if random.random() < 0.5 else None)
    for apart_ns, again_ns in ((0, 3_000_000_000), (_APART_NS, 3_000_000_000), (_APART_NS, _LATEST_SECOND_LOOK_NS)):
        first = BEGUN_NS + int(random.random() * (job.run.ended_ns - BEGUN_NS))
        later = first + random.randint(3_000_000_000, again_ns)
        looks = [
            watched.look(node, min(moment + random.randint(0, apart_ns), job.run.ended_ns))
            for moment in (first, later)
            for node in range(watched.nodes)
        ]
        yield Case(tuple(looks), Expected())


_Named = tuple[str, Case, frozenset[int], bool]
"""(name, everything a verdict rests on, who is to blame, does it hang)."""


def of_zoo(directory: Path) -> Iterator[_Named]:
    """Real programs."""
    for folder in sorted(directory.iterdir()):
        program, mode = folder.name.rsplit(".", 1)
        recorded = read_recorded(folder)
        truth = Truth.of(program, cast(Mode, mode))
        expected = Expected() if recorded.manifest is None else recorded.manifest.expected
        yield folder.name, Case(recorded.snapshots, expected), truth.culprits, "hung" in truth.verdicts


def main() -> int:
    """See --help; the exit status is 1 where anything got worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="simulated jobs of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--most", type=int, default=8, help="sets of ranks for each kind of evidence")
    parser.add_argument("--zoo", type=Path, help="bundles of real programs")
    asked = parser.parse_args()
    cases: Iterable[_Named] = () if asked.zoo is None else of_zoo(asked.zoo)
    number, worse, began = 0, Counter[str](), time.process_time()
    seeds = range(asked.first, asked.first + asked.seeds)
    simulated = ((f"hung {seed}", *hung_looks(seed), True) for seed in seeds)
    healthy = ((f"healthy {seed}", case, frozenset[int](), False) for seed in seeds for case in healthy_looks(seed))
    for name, case, guilty, hangs in (item for part in (cases, simulated, healthy) for item in part):
        done = tried(case, guilty, hangs=hangs, most=15 if len(case.ranks) <= 4 else asked.most, seed=len(name))
        number += done.number
        for violation in done.violations:
            worse[violation.what.partition(" ")[0]] += 1
            print(f"{name}: {violation}", flush=True)
    print(
        f"{number} times less evidence, worse {sum(worse.values())} times {dict(worse)}; "
        f"{time.process_time() - began:.0f} s of cpu"
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
