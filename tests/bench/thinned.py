"""How often less evidence makes a verdict worse: an innocent named, a culprit surer, a healthy job hung. It must not.

Parts of the evidence of simulated jobs are taken away, of some ranks or of all (tests/build/jobs/thinned.py): hung ones
at rest, and healthy ones whose nodes are looked at within some seconds of each other, the second time perhaps late.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from tests.build.jobs.thinned import Case, Thinning, false_accusations, surer, thinned, thinnings
from tests.build.simulation.looks import LOADER, Watched, looked_at_later
from tests.build.simulation.run import BEGUN_NS
from tests.build.simulation.scenario import draw, draw_healthy

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
