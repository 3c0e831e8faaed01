"""What of the lab is part of `make test` where its PyTorch is there already; all of it is `make lab`."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab.environment import environment
from tests.lab.rings import UNFINISHED, compare
from tests.system.live.truths import REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.slow, pytest.mark.ptrace]


def test_record_is_read_in_each_state_of_its_ring(tmp_path: Path) -> None:
    """As PyTorch dumps it: empty, part-filled, full and wrapped; without one there are group and stack."""
    assert [state for state in compare(environment(), tmp_path) if state[1] not in ("", UNFINISHED)] == []


@pytest.mark.parametrize(
    "scenario",
    [
        "asleep_before_collective, no record",
        "recv_ring, no record",
        "long_kernels, no record",
        "runs_ahead",
        "graphs_replayed",
    ],
)
def test_hang_on_nccl_is_judged(scenario: str) -> None:
    """Ranks spin on their devices, or poll for a communicator, and nothing is prepared."""
    command = (sys.executable, "-m", "tests.lab", f"={scenario}")
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
