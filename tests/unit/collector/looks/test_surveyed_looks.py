"""What a survey and a closer look at a few ranks tell, against whole looks at all: the same, or less, nobody else."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.looks import next_looks as deeper
from collector.looks.next_looks import next_looks
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.wire.snapshot import NodeSnapshot
from shared.wire.survey_form import Survey
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import survey_of
from tests.build.simulation.looks import Watched, looked_at_later
from tests.build.simulation.scenario import draw, draw_healthy

FEW = 3
"""Closer looks at a job of a few ranks, as 64 are at one of thousands."""


def surveyed(looks: Sequence[NodeSnapshot]) -> list[NodeSnapshot]:
    """The looks as surveys bring them over."""
    reader = SurveyReader()
    return [reader.snapshot_of(Survey.model_validate_json(survey_of(look).model_dump_json())) for look in looks]


def closer(looks: Sequence[NodeSnapshot], brief: Sequence[NodeSnapshot]) -> list[NodeSnapshot]:
    """Whole looks at those that the surveys make the verdict ask about."""
    wanted = set(next_looks(brief, Expected()).closer)
    chosen = [[rank for rank in look.ranks if (look.host, rank.identity.pid) in wanted] for look in looks]
    return [
        look.model_copy(update={"ranks": tuple(ranks), "whole": False})
        for look, ranks in zip(looks, chosen, strict=True)
        if ranks
    ]


def named(answer: Diagnosis) -> frozenset[int]:
    """Everybody who is accused."""
    return frozenset(rank for finding in answer.findings for rank in finding.culprit_ranks)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 2**31 - 1))
@example(587734293)  # a window that leaves out records between those it keeps made a program look like another one
def test_a_survey_names_whom_whole_looks_name_or_nobody(seed: int) -> None:
    job = draw(seed)
    moments = looked_at_later(job.run)
    watched = Watched(job.run, job.layout, job.recorders)
    whole = watched.looks(moments)
    brief = surveyed(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deeper, "MOST_CLOSER_LOOKS", FEW)
        few = closer(watched.looks([moments[-1] + 200_000_000]), brief)
    assert sum(len(look.ranks) for look in few) <= FEW
    answer = diagnose([*brief, *few], Expected())
    assert answer.verdict is Verdict.HUNG
    assert named(answer) in (named(diagnose(whole, Expected())), frozenset()), str(job)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 2**31 - 1), st.floats(0, 1), st.booleans())
def test_a_survey_of_a_healthy_job_never_tells_of_a_hang(seed: int, when: float, twice: bool) -> None:
    job = draw_healthy(seed)
    watched = Watched(job.run, job.layout, job.recorders)
    begun_ns = job.run.ended_ns - round(when * 1e9)
    moments = [begun_ns, min(begun_ns + 3_000_000_000, job.run.ended_ns)] if twice else [begun_ns]
    brief = surveyed(watched.looks(moments))
    assert not next_looks(brief, Expected()).decided
    assert diagnose(brief, Expected()).verdict is not Verdict.HUNG
