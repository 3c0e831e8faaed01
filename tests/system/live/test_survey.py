"""A real job that really hangs, looked at as one on hundreds of nodes is: a survey, then the ranks it is about."""

import json
import os
from pathlib import Path

import pytest

from tests.build.processes.warm import run
from tests.system.e2e.hosts import container
from tests.system.live.asking import ANSWER_SECONDS
from tests.system.live.jobs import Job
from tests.system.live.truths import STATUS, Mode, Truth, named

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


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
    with (
        container() as beside,
        Job(program, directory=tmp_path, probe=mode == "probe", forked=True, beside=beside) as job,
    ):
        done = run(
            (job.name,),
            environment=os.environ,
            directory=tmp_path,
            seconds=ANSWER_SECONDS,
            beside=beside,
            module="tests.system.live.surveying",
        )
    assert done.status == 0, done.err
    told = json.loads(done.out)
    answer = told["answer"]
    wrong = Truth.of(program, mode).disagreements(answer, STATUS[answer["verdict"]])
    assert not wrong, f"{'; '.join(wrong)}\n{json.dumps(answer, indent=1)}"
    assert not told["in_whole_looks"]
    assert named(answer) <= set(told["looked_at"])
