"""`unhang.look()` from a program of the user's own, beside a real job."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.live.asking import ANSWER_SECONDS
from tests.system.live.jobs import Job

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace]

LOOK = """
import unhang
observed = unhang.look()
(finding,) = unhang.diagnose(observed).findings
print(observed.job, finding.kind.value, *(rank.rank for rank in finding.culprits))
"""


def test_job_is_looked_at_and_judged(tmp_path: Path, container: int) -> None:
    """The rank that sleeps is named."""
    with Job("asleep_before_collective", directory=tmp_path, forked=True, beside=container) as job:
        beside = ("nsenter", f"--target={container}", "--pid", "--mount")
        command = (*beside, sys.executable, "-c", LOOK)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_SECONDS)
        assert done.stdout == f"{job.name} rank_not_joined 2\n", done.stderr
