"""Properties of the verdict on simulated jobs: whoever is named has done it, whatever the topology, fault and order.

Every run draws the same jobs, few of them, for they are large; `make bench` judges thousands of fresh ones.
`python -m tests.bench.accuracy --case SEED` shows one.
"""

import os
import random
from collections.abc import Sequence

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from collector.align.expected import Expected
from collector.files.read_directory import read_directory
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.dumps import SECOND_NS
from tests.build.simulation.looks import LOADER, Watched, looked_at_later
from tests.build.simulation.run import BEGUN_NS, Semantics
from tests.build.simulation.scenario import draw, draw_healthy
from tests.build.simulation.truth import judge

SEEDS = st.integers(0, 10**9)


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def named(answer: Diagnosis) -> frozenset[int]:
    return frozenset(rank for finding in answer.findings for rank in finding.culprit_ranks)


def shuffled(snapshots: Sequence[NodeSnapshot], seed: int) -> list[NodeSnapshot]:
    order = random.Random(seed)
    mixed = [one.model_copy(update={"ranks": tuple(order.sample(one.ranks, len(one.ranks)))}) for one in snapshots]
    order.shuffle(mixed)
    return mixed


@bounded(30)
@given(SEEDS)
def test_nobody_is_named_who_has_not_done_it_and_the_order_of_dumps_changes_nothing(seed: int) -> None:
    job = draw(seed)
    answer = diagnose(job.dumps, job.expected)
    assert diagnose(shuffled(job.dumps, seed), job.expected) == answer
    judged = judge(answer, job.truth)
    assert not judged.innocents, f"{job}: {answer.headline}"


@bounded(100)
@given(SEEDS)
def test_nobody_is_named_who_has_not_done_it_where_dumps_are_lost_and_members_not_told(seed: int) -> None:
    job = draw(seed, thinned=True)
    answer = diagnose(job.dumps, job.expected)
    assert not judge(answer, job.truth).innocents, f"{job}: {answer.headline}"


@bounded(50)
@given(SEEDS, st.floats(0, 1), st.floats(0, 8), st.sampled_from(["a copy", "two copies", "two sets"]))
def test_dumps_of_a_healthy_job_that_lie_there_twice_are_of_no_hang(
    seed: int, when: float, apart: float, how: str
) -> None:
    """The copy of a set that has its own times yet may be as much later as it wants."""
    job = draw_healthy(seed, semantics=Semantics.GLOO)
    at = BEGUN_NS + int(when * (job.run.ended_ns - BEGUN_NS))
    first = at + (0 if how != "two copies" else 60 * SECOND_NS)
    again = min(at + 10 * SECOND_NS, job.run.ended_ns) if how == "two sets" else at
    later = first + int(apart * (SECOND_NS if how != "a copy" else 600 * SECOND_NS))
    answer = diagnose(job.dumps((at, first), (again, later)), Expected())
    assert answer.verdict is not Verdict.HUNG, f"{job.layout.name} at {at}, {again}: {answer.headline}"


@bounded(20)
@given(SEEDS)
def test_the_loss_of_a_healthy_ranks_dump_accuses_nobody_else(seed: int) -> None:
    job = draw(seed)
    whole = named(diagnose(job.dumps, job.expected))
    for lost in sorted(job.given - job.injected.culprits)[:3]:
        left = [one for one in job.dumps if one.ranks[0].identity.rank != lost]
        assert named(diagnose(left, job.expected)) <= whole | {lost} | job.injected.culprits | job.truth.allowed, job


@bounded(20)
@given(SEEDS)
@example(150803808)  # most had ended well, and most had made the call that the one who had not was waited for in
def test_two_looks_decide_that_a_job_hangs_and_blame_no_innocent(seed: int) -> None:
    job = draw(seed)
    watched = Watched(job.run, job.layout, job.recorders, frozenset(job.layout.world.ranks) - job.given)
    looks = watched.looks(looked_at_later(job.run))
    answer = diagnose(looks, Expected())
    assert answer.verdict is Verdict.HUNG, f"{job}: {answer.headline}"
    assert diagnose(shuffled(looks, seed), Expected()) == answer
    assert not judge(answer, job.truth).innocents, f"{job}: {answer.headline}"


@bounded(30)
@given(SEEDS, st.floats(0, 1), st.booleans(), st.booleans())
def test_a_healthy_job_never_hangs_whenever_it_is_looked_at(seed: int, when: float, twice: bool, loads: bool) -> None:
    job = draw_healthy(seed)
    assert not job.run.hung
    watched = Watched(job.run, job.layout, job.recorders, works_with=LOADER if loads else None)
    first = BEGUN_NS + int(when * (job.run.ended_ns - BEGUN_NS))
    moments = [first, min(first + 3_000_000_000, job.run.ended_ns)] if twice else [first]
    answer = diagnose(watched.looks(moments), Expected())
    assert answer.verdict is not Verdict.HUNG, f"{job.layout.name} at {moments}: {answer.headline}"


@bounded(10)
@given(SEEDS)
def test_what_is_left_of_an_earlier_attempt_changes_nothing(seed: int) -> None:
    job = draw(seed, faults=["stays"])
    earlier = draw_healthy(seed, load_seconds=0.1)
    watched = Watched(job.run, job.layout, job.recorders, attempt=1)
    looks = watched.looks(looked_at_later(job.run))
    remains = Watched(earlier.run, earlier.layout, earlier.recorders).looks([earlier.run.ended_ns - 1])
    answer = diagnose([*remains, *looks], Expected())
    assert answer.findings == diagnose(looks, Expected()).findings
    assert answer.findings[0].kind in (Kind.RANK_NOT_JOINED, Kind.P2P_UNMATCHED)


def test_dumps_read_from_files_get_the_same_answer(tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    for seed in range(8):
        job = draw(seed)
        directory = tmp_path_factory.mktemp("dumps")
        for look, seconds in enumerate((20, 40) if job.semantics is Semantics.GLOO else (20,)):
            (directory / str(look)).mkdir()
            for rank, data in job.files.items():
                file = directory / str(look) / f"trace_node-{rank // 8}_{rank}"
                file.write_bytes(data)
                os.utime(file, ns=(job.run.ended_ns + seconds * SECOND_NS,) * 2)
            (directory / str(look) / "date").write_text(str(job.run.ended_ns // SECOND_NS + seconds))
        snapshots, missing = read_directory(directory)
        assert not missing
        assert named(diagnose(snapshots, job.expected)) == named(diagnose(job.dumps, job.expected)), job
