"""A straggler without a recorder is found whenever the first look came, and however little time looks take."""

from itertools import accumulate

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.looks.next_looks import further_looks
from shared.answer.words import Verdict
from shared.wire.snapshot import NodeSnapshot, Process
from tests.build.jobs.simulated import USER, Job, Seen, Stay, live_looks

INTERVAL_SECONDS = 3.0
STRAGGLER = 2
SWITCHES = 8
"""How often a rank's main thread waits in a step: a few times in each of its operations."""


def looks_at(times: list[float], step_seconds: float, phase: float) -> list[NodeSnapshot]:
    """Looks that take no time, at a job in which all wait for one rank, and are let go once in each step."""
    seen = {rank: Seen(frames=(USER,)) if rank == STRAGGLER else Seen() for rank in range(4)}
    job = Job({rank: [Stay()] for rank in range(4)})
    looks = []
    for seconds in times:
        (look,) = live_looks(job, seen, recorder=False, looks=1, after_seconds=60.0 + seconds)
        looks.append(_let_go(look, SWITCHES * int(seconds / step_seconds + phase)))
    return looks


def _let_go(look: NodeSnapshot, switches: int) -> NodeSnapshot:
    ranks = []
    for rank in look.ranks:
        assert isinstance(rank.process, Process) and rank.process.after is not None
        beat = rank.process.after.model_copy(update={"main_switches": switches})
        process = rank.process.model_copy(update={"before": beat, "after": beat})
        ranks.append(rank.model_copy(update={"process": process}))
    return look.model_copy(update={"ranks": tuple(ranks)})


@pytest.mark.parametrize("phase", [number / 10 for number in range(10)])
@pytest.mark.parametrize("step_seconds", [0.1, 0.55, 0.8])
def test_a_straggler_is_found_at_any_time_of_its_step(step_seconds: float, phase: float) -> None:
    """Looks in quick succession see the others let go often enough, also where steps take most of a second."""
    first = looks_at([0.0, INTERVAL_SECONDS], step_seconds, phase)
    pauses = further_looks(first, Expected()).pauses
    times = [0.0, *accumulate((INTERVAL_SECONDS, *pauses))]
    diagnosis = diagnose(looks_at(times, step_seconds, phase), Expected())
    assert diagnosis.verdict is Verdict.SLOW
    assert [finding.culprit_ranks for finding in diagnosis.findings] == [(STRAGGLER,)]
