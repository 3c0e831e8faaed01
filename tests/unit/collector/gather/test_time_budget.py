"""Answers are due before the verdict is: judging and keeping take time as well."""

from collections.abc import Sequence
from typing import Any

import pytest

from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.values import RequestDeadline, RoundOutcome, T
from collector.gather.sweep import sweep
from collector.gather.time_budget import LEAST_SECONDS, TimeBudget
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Question
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks
from tests.build.agents.served_agents import served


@pytest.mark.parametrize(
    ("whole", "thought", "kept_back"),
    [(30.0, 0.0, 0.5), (30.0, 0.2, 0.5), (30.0, 2.0, 4.0), (30.0, 60.0, 10.0), (1.0, 0.0, 0.1), (1.0, 60.0, 1 / 3)],
)
def test_time_is_kept_back_by_what_judging_has_taken_so_far(whole: float, thought: float, kept_back: float) -> None:
    """Half a second at least of a usual deadline, a tenth of a short one, and never more than a third."""
    deadline = RequestDeadline.within(whole)
    due = TimeBudget(deadline)
    due.has_thought(thought)
    due.has_thought(0.0)
    assert deadline.at - due.answers.at == pytest.approx(kept_back, rel=0.01)


class Noting(Fanout):
    """A fan-out that keeps the deadlines that it is given, and when it was given the first."""

    deadlines: tuple[RequestDeadline, ...] = ()
    first_asked: RequestDeadline

    async def ask(
        self, requests: Sequence[Any], answer: type[T], *, deadline: RequestDeadline, **more: Any
    ) -> RoundOutcome[T]:
        if not self.deadlines:
            self.first_asked = RequestDeadline.within(0.0)
        self.deadlines += (deadline,)
        return await super().ask(requests, answer, deadline=deadline, **more)


@pytest.mark.parametrize("survey_above", [0, 1000], ids=["surveyed", "looked at whole"])
async def test_no_stage_of_a_sweep_asks_for_answers_until_the_verdict_is_due(survey_above: int) -> None:
    """Neither the looks nor the native stacks, which are asked for last and with all the time that is left."""
    seconds = 20.0
    question = Question(
        job=JOB, deadline_seconds=seconds, interval_seconds=0.1, survey_above=survey_above, native=NativePolicy.ALL
    )
    with served(FakeAgent("node1", case_ranks("missing_rank2", range(4), host="node1"))) as url:
        async with make_client() as client:
            fanout = Noting(client)
            await sweep(question, [AgentAddress(host="node1", url=url)], fanout)
    assert len(fanout.deadlines) >= 3
    latest = fanout.first_asked.at + seconds  # the sweep had begun when it asked for the first time
    assert max(deadline.at for deadline in fanout.deadlines) <= latest - LEAST_SECONDS
