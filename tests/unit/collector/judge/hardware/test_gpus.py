"""GPUs beside a straggler: clocks that are held down on its device alone."""

from collections.abc import Collection

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Finding
from shared.answer.words import Cause
from shared.wire.stacks import Frame
from tests.build.jobs.placed import gpu, telling
from tests.build.simulation.looks import Watched
from tests.build.simulation.run import BEGUN_NS
from tests.build.simulation.scenario import draw_healthy

SYNCHRONIZES = Frame("synchronize", "/env/lib/python3.11/site-packages/torch/cuda/__init__.py", 1040)


def slow_with(throttled: Collection[int]) -> Finding:
    """What is found of a job that rank 3 holds up, where the GPUs of some ranks are throttled."""
    job = draw_healthy(7, slow_rank=3, load_seconds=0.5)
    at_ns = BEGUN_NS + (job.run.ended_ns - BEGUN_NS) * 9 // 10
    watched = Watched(job.run, job.layout, job.recorders, works_with=SYNCHRONIZES)
    looks = watched.looks([at_ns - 3_000_000_000, at_ns])
    for look in tuple(looks):
        pids = {rank.identity.rank: rank.identity.pid or 0 for rank in look.ranks}
        slowed = {rank: ("thermal",) if rank in throttled else () for rank in pids}
        gpus = [gpu(rank, pid, slowed_by=slowed[rank]) for rank, pid in pids.items()]
        looks = telling(looks, look.host or "", gpus=gpus)
    (finding,) = diagnose(looks, Expected()).findings
    assert finding.culprit_ranks == (3,)
    return finding


def test_a_stragglers_throttled_gpu_is_evidence_and_the_cause() -> None:
    finding = slow_with({3})
    assert finding.cause is Cause.GPU_FAULT
    assert any("throttled by thermal" in each.text for each in finding.evidence)


@pytest.mark.parametrize("throttled", [(), range(64)], ids=["none", "all"])
def test_clocks_that_are_held_down_everywhere_are_no_reason_for_one_to_be_late(throttled: Collection[int]) -> None:
    finding = slow_with(throttled)
    assert finding.cause is not Cause.GPU_FAULT
    assert not any("throttled" in each.text for each in finding.evidence)
