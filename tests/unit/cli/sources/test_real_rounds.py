"""A real job on what looks like two nodes, judged without a service: over ssh, and by looks that srun's tasks wrote."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build.processes.commands import unhang
from tests.build.processes.sshd import cluster
from tests.system.live.jobs import Job
from tests.system.live.truths import Truth

pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.slow]

PROGRAM = "lock_never_released"
ROUNDS = ["look 1", "reading native stacks", "look 3", "judging"]
NODES = {"node01": "0,1", "node02": "2,3"}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Four ranks without a recorder: one waits for a lock, which its Python stack does not tell from work in C."""
    with Job(PROGRAM, directory=tmp_path_factory.mktemp("job"), forked=True) as running:
        yield running


def assert_right(answer: str, status: int) -> None:
    """Compare an answer with what is wrong with the job."""
    assert Truth.of(PROGRAM, "bare").disagreements(json.loads(answer), status) == []


def test_over_ssh(job: Job, tmp_path: Path) -> None:
    """Two looks, native stacks of the odd one, and as looks 0.2 s apart leave a doubt, time until it is none."""
    seen = {n: {"UNHANG_AGENT_HOST_NAME": n, "UNHANG_AGENT_ONLY_RANKS": only} for n, only in NODES.items()}
    with cluster(tmp_path, seen, executed=("node01",)) as nodes:
        asked = ("diagnose", job.name, *nodes.options, "--hosts", "node[01-02]", "--interval", "0.2", "--json", "-v")
        done = unhang(*asked)
    assert_right(done.out, done.status)
    # Where it took long enough, the native look has shown already that all stand still.
    told = [line.split(" (")[0] for line in done.err.splitlines() if not line.startswith("waiting ")]
    assert told in ([*ROUNDS[:2], ROUNDS[3]], ROUNDS)
