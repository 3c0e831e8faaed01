"""A real job that really hangs, looked at as one on hundreds of nodes is: a survey, then the ranks it is about."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from cli.sources.one_box import ask
from collector.gather.sweep import Sweep, sweep
from collector.hostlists import AgentAddress
from collector.question import Question
from shared.missing import Missing
from shared.wire.snapshot import Fds
from tests.system.live.jobs import Job
from tests.system.live.truths import STATUS, Mode, Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


async def surveyed(job: str, agents: Sequence[AgentAddress], client: httpx.AsyncClient) -> Sweep:
    """Ask as if this node were one of many."""
    return await sweep(Question(job=job, survey_above=0), agents, client)


@pytest.mark.parametrize(
    ("program", "mode"),
    [
        ("rank_conditional_collective", "probe"),
        ("wrong_op", "probe"),
        ("dataloader_hang", "bare"),
        pytest.param("slow_rank", "probe", marks=pytest.mark.steady),
        pytest.param("healthy", "bare", marks=pytest.mark.steady),
    ],
)
def test_a_survey_of_a_real_job_tells_the_truth(program: str, mode: Mode, tmp_path: Path) -> None:
    """The same culprits, kinds and causes as whole looks; suspects are looked at wholly."""
    with Job(program, directory=tmp_path, probe=mode == "probe", forked=True) as job:
        swept = ask(partial(surveyed, job.name))
    answer = swept.diagnosis
    wrong = Truth.of(program, mode).disagreements(answer.model_dump(mode="json"), STATUS[answer.verdict])
    assert not wrong, f"{'; '.join(wrong)}\n{answer.model_dump_json(indent=1)}"
    assert all(isinstance(rank.fds, Missing) for look in swept.snapshots if look.whole for rank in look.ranks)
    looked_at = {r.identity.rank for look in swept.snapshots for r in look.ranks if isinstance(r.fds, Fds)}
    assert {rank for finding in answer.findings for rank in finding.culprit_ranks} <= looked_at
