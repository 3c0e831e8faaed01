"""Few looks at a watched job settle the verdict only where looks at all ranks give the same one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import pytest

from collector.align.expected import Expected, Unanswered
from collector.align.marks.agent_marks import Reported, StandsAt
from collector.detect.job_view import JobView
from collector.detect.reports import reported_by
from collector.judge.verdict import diagnose
from collector.looks import few_looks as rule
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs import soaked
from tests.build.simulation import looks as simulated_looks
from tests.build.simulation.faults import FAULTS
from tests.build.simulation.scenario import draw, draw_healthy

NOW = 100.0
MOST_ROUNDS = 16


@dataclass(frozen=True)
class Both:
    """What few looks made of a job, and what looks at all do; `few` is None where they settle nothing."""

    few: Diagnosis | None
    all_looks: Sequence[NodeSnapshot]
    expected: Expected
    looked_at: int
    ranks: int

    @property
    def whole(self) -> Diagnosis:
        """Made only where there is something to hold it against."""
        return diagnose(self.all_looks, self.expected)


@pytest.fixture(autouse=True)
def one_rank_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that jobs of a few ranks have many nodes; and few ranks at a place count as many."""
    for module in (simulated_looks, soaked):
        monkeypatch.setattr(module, "PER_NODE", 1)
    monkeypatch.setattr(rule, "MOST_ALL_LOOKED_AT", 2)
    monkeypatch.setattr(rule, "_SAMPLES", 2)


def reported_of(job: soaked.Soaked, now: float, silent: Sequence[str]) -> Reported | None:
    """What the agents of a job have told, but for the silent ones."""
    view = JobView()
    for number, node in enumerate(job.nodes()):
        for digest in job.digest(node, now).jobs if f"node-{number}" not in silent else ():
            view.take(f"node-{number}", digest, NOW)
    return reported_by(view, None, NOW)


@lru_cache(maxsize=1)
def hung(seed: int, *faults: str) -> tuple[soaked.Soaked, float, list[NodeSnapshot]]:
    """A drawn job, a time at which it has stood still for a while, and two looks then."""
    job = soaked.hung(draw(seed, faults=faults))
    now = job.seconds + 40
    return job, now, job.looks(now)


def both(seed: int, *, faults: Sequence[str], silent: int = 0) -> Both | None:
    """Diagnose a drawn job both ways; None where its agents' reports do not help."""
    job, now, looks = hung(seed, *faults)
    quiet = [f"node-{number}" for number in Random(seed).sample(range(len(job.nodes())), silent)]
    reported = reported_of(job, now, quiet)
    if reported is None:
        return None
    every = [look for look in looks if look.host not in quiet]
    whole = Expected(job="sim", unanswered=tuple(map(_unanswered, quiet)))
    few, looked_at = _by_few(every, whole, reported)
    return Both(few, every, whole, looked_at, len(reported.places))


def _by_few(every: Sequence[NodeSnapshot], whole: Expected, reported: Reported) -> tuple[Diagnosis | None, int]:
    ranks = rule.first_ranks(reported)
    for _ in range(MOST_ROUNDS):
        ranks = reported.on_the_nodes_of(ranks)
        hosts = {reported.hosts[rank] for rank in ranks}
        some = [look for look in every if look.host in hosts]
        expected = whole.model_copy(update={"told": fold(reported.places.keys() - ranks)})
        found = rule.few_looks(some, expected, reported)
        if found.settled is not None:
            return diagnose(some, expected), len(ranks)
        if not found.more - ranks:
            return None, len(ranks)
        ranks |= found.more
    raise AssertionError("it does not end")


def _unanswered(host: str) -> Unanswered:
    return Unanswered(host=host, missing=Missing(source=host, reason=Reason.UNREACHABLE, detail="no connection"))


def told(diagnosis: Diagnosis) -> object:
    """The verdict, and of each fault its kind and cause, who is at fault, and how sure that is."""
    faults = [(f.kind, f.cause, f.culprit_ranks, f.certainty) for f in diagnosis.findings]
    return diagnosis.verdict, sorted(faults)


def test_few_looks_say_what_looks_at_all_say() -> None:
    """Of jobs that one rank keeps waiting, most are settled by few looks, some of them at less than half of the job.

    That is so where all agents answer, and where one is silent.
    """
    tried = [(both(seed, faults=("stays",)), both(seed, faults=("stays",), silent=1)) for seed in range(60)]
    for each in zip(*tried, strict=True):
        pairs = [pair for pair in each if pair is not None]
        settled = [pair for pair in pairs if pair.few is not None]
        both_ways = [(told(pair.few), told(pair.whole)) for pair in settled if pair.few]
        assert [(few, whole) for few, whole in both_ways if few != whole] == []
        assert len(settled) > len(pairs) / 3
        assert any(pair.looked_at < pair.ranks / 2 for pair in settled)


@pytest.mark.parametrize("slow", [False, True])
def test_a_job_that_goes_on_is_well_by_few_looks_only_where_nobody_is_slow(slow: bool) -> None:
    """Every sample of its ranks is tried: none says that a job with a straggler is well."""
    settled = 0
    for seed in range(12):
        job = draw_healthy(seed, slow_rank=seed if slow else None, load_seconds=0.5 if slow else None)
        watched = simulated_looks.Watched(job.run, job.layout, job.recorders)
        every = watched.looks([job.run.ended_ns - 3_000_000_000, job.run.ended_ns - 100_000_000])
        whole = diagnose(every, Expected(job="sim"))
        ranks = job.layout.world.ranks
        for first in ranks:
            hosts = {f"node-{ranks.index(rank)}" for rank in (first, ranks[-1], ranks[0])}
            some = [look for look in every if look.host in hosts]
            unseen = [rank for at, rank in enumerate(ranks) if f"node-{at}" not in hosts]
            if rule.goes_on(some, Expected(job="sim", told=fold(unseen))):
                settled += 1
                assert whole.verdict is Verdict.NOT_HUNG, (seed, first)
    assert slow or settled > 0


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_simulator_is_told_otherwise(fault: str) -> None:
    for seed in range(1000, 1012):
        pair = both(seed, faults=(fault,))
        if pair is not None and pair.few is not None:
            assert told(pair.few) == told(pair.whole), seed


def reported(places: Mapping[int, StandsAt]) -> Reported:
    return Reported(None, places, {rank: f"n{rank}" for rank in places}, world_size=len(places))


WAITS = StandsAt("0", 9, True)


def test_who_stands_apart_is_looked_at_first() -> None:
    """Whoever has nothing pending, stands elsewhere or cannot be placed, and some of those who stand together."""
    places = dict.fromkeys(range(100), WAITS)
    places |= {
        7: StandsAt("0", 8, True),
        40: StandsAt("0", 9, False),
        41: StandsAt("0", 9, False),
        42: StandsAt("0", 9, False),
    }
    places |= dict.fromkeys((50, 51, 52), StandsAt("", -1, True))
    assert rule.first_ranks(reported(places)) == {0, 99, 7, 40, 41, 42, 50, 51, 52}


def test_a_job_without_a_pattern_is_left_to_looks_at_all() -> None:
    places = {rank: StandsAt(f"group {rank}", 9, True) for rank in range(rule.MOST_PLACES + 1)}
    assert rule.first_ranks(reported(places)) == frozenset()


def test_what_agents_tell_is_said_of_those_that_were_not_looked_at() -> None:
    """Nobody is told that they are nowhere to be found."""
    pair = next(p for seed in range(50) if (p := both(seed, faults=("stays",))) and p.few and p.looked_at < p.ranks)
    assert pair.few is not None
    gaps = [gap for gap in pair.few.coverage.missing if gap.missing.source == "rank"]
    assert gaps and all("its agent reports that it stands still, or goes on" in gap.missing.detail for gap in gaps)
