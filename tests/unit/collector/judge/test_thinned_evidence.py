"""Whatever evidence is late or lost: no innocent is named, nobody is surer, and what is well is not hung."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Kind, Verdict
from tests.bench.thinned import Violation, healthy_looks, hung_looks, tried
from tests.build.jobs.dumps import CASES, GLOO, snapshots_of
from tests.build.jobs.thinned import KINDS, Case, Thinning, thinned, thinnings
from tests.unit.collector.judge.test_simulation import bounded

SEEDS = st.integers(0, 10**6)


def complaints(violations: list[Violation]) -> str:
    return "\n".join(map(str, violations))


@bounded(15)
@given(SEEDS)
def test_what_is_lost_of_a_hung_job_accuses_no_innocent_and_makes_nobody_surer(seed: int) -> None:
    case, guilty = hung_looks(seed)
    assert not (found := tried(case, guilty, most=2, seed=seed).violations), complaints(found)


@bounded(8)
@given(SEEDS)
def test_a_healthy_job_of_which_much_is_lost_or_late_does_not_hang(seed: int) -> None:
    for case in healthy_looks(seed):
        assert not (found := tried(case, (), hangs=False, most=2, seed=seed).violations), complaints(found)


RECORDED = [case for base in (CASES, GLOO) for case in sorted(base.iterdir()) if case.is_dir()]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_no_dump_that_is_lost_names_another_rank(folder) -> None:  # type: ignore[no-untyped-def]
    """Of recorded dumps, all sets of ranks: whoever all dumps together do not name is not named without some."""
    case = Case(tuple(snapshots_of(sorted(folder.iterdir()))), Expected())
    guilty = frozenset(rank for finding in diagnose(*case).findings for rank in finding.culprit_ranks)
    assert not (found := tried(case, guilty, most=99).violations), complaints(found)


def test_who_waits_for_a_handle_that_nobody_looked_into_is_not_proven_to_stay_away() -> None:
    """Gloo records no sends: by its record a rank that waits for one has not come to the next collective."""
    seed = next(seed for seed in range(1, 10_000, 2) if _leaves_out_a_send(seed))
    case, guilty = hung_looks(seed)
    assert {rank for finding in diagnose(*case).findings for rank in finding.culprit_ranks} <= guilty
    for kind in ("native frames", "stacks"):
        answer = diagnose(*thinned(case, Thinning(kind, frozenset(case.ranks))))
        assert {rank for finding in answer.findings for rank in finding.culprit_ranks} <= guilty, kind


def _leaves_out_a_send(seed: int) -> bool:
    case, guilty = hung_looks(seed)
    answer = diagnose(*case)
    told = any(finding.kind is Kind.P2P_UNMATCHED for finding in answer.findings)
    return answer.verdict is Verdict.HUNG and told and bool(guilty)


def test_each_kind_of_loss_takes_something_away() -> None:
    case, _ = hung_looks(1)
    whole = frozenset(case.ranks)
    same = [kind for kind in KINDS if thinned(case, Thinning(kind, whole)) == case]
    assert set(same) <= {"marks", "watching", "logs", "descriptors", "children"}, "the simulator has none of those"
    assert len(list(thinnings(range(4), most=99))) == 15 * len(KINDS)
    assert Random(1).random() != Random(2).random()
