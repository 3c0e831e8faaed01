"""Several `unhang snapshot` at once into one directory, as `srun --ntasks-per-node=1` and `pdsh` start them."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.commands.diagnose import STATUS
from shared.answer.diagnosis import Diagnosis
from tests.build.processes.commands import FIRST, NOBODY, SECOND, Job, unhang
from tests.build.processes.warm import Done

HOSTS = ("node01", "node02", "node03")


class Nodes:
    """Nodes that look at the same time."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def start(self, host: str, directory: Path, env: dict[str, str], *more: str) -> Future[Done]:
        """Start one node's part, as a task of Slurm under a name of its own."""
        task = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "9", "SLURM_PROCID": "0", "SLURM_NTASKS": "3"}
        arguments = ("snapshot", "-o", str(directory), "--stacks", "none", "--looks", "1", *more)
        return self._threads.submit(unhang, *arguments, env={**env, **task, "UNHANG_AGENT_HOST_NAME": host})


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """As many as a test starts."""
    with ThreadPoolExecutor(max_workers=4) as threads:
        yield Nodes(threads)


def ended(parts: Sequence[Future[Done]]) -> list[Done]:
    """Wait for all parts; return their statuses and what they said."""
    return [part.result() for part in parts]


@pytest.mark.slow
def test_all_nodes_at_once(tmp_path: Path, nodes: Nodes, job: Job) -> None:
    """Each look of each node is a file of its own, whole; a node without ranks is one that was looked at."""
    looks = ("--looks", "2", "--interval", "0.2", "--allow-empty")
    here = zip(HOSTS, (FIRST, SECOND, NOBODY), strict=True)
    parts = [
        nodes.start(host, tmp_path / "looks", {"UNHANG_AGENT_ONLY_RANKS": str(rank)}, *looks) for host, rank in here
    ]
    assert [(status, err) for status, _, err in ended(parts)] == [(0, "")] * 3
    names = sorted(path.name for path in (tmp_path / "looks").iterdir())
    assert [name[:6] for name in names] == ["node01"] * 2 + ["node02"] * 2 + ["node03"] * 2
    judged = unhang("diagnose", "--from", str(tmp_path / "looks"), "--json")
    diagnosis = Diagnosis.model_validate_json(judged.out)
    assert (judged.status, diagnosis.coverage.seen) == (STATUS[diagnosis.verdict.value], 2)
    assert not [gap for gap in diagnosis.coverage.missing if gap.missing.source.endswith(".gz")]


def test_nodes_that_share_a_name_overwrite_nothing(tmp_path: Path, nodes: Nodes, job: Job) -> None:
    """Containers are often all called the same."""
    assert {status for status, _, _ in ended([nodes.start("localhost", tmp_path, job.env) for _ in range(4)])} == {0}
    assert len(list(tmp_path.glob("localhost-*.json.gz"))) == 4


def test_node_that_cannot_write_costs_itself_alone(tmp_path: Path, nodes: Nodes, job: Job) -> None:
    """It says so before anybody is looked at, and the others' looks are there."""
    began = time.monotonic()
    slowly = ("--looks", "9", "--interval", "30")
    good = nodes.start("node01", tmp_path, job.env)
    bad = nodes.start("node02", Path("/proc/nope"), job.env, *slowly)
    (good_status, _, _), (bad_status, out, err) = ended([good, bad])
    assert (good_status, bad_status, out) == (0, 1, "")
    assert "cannot be written" in err
    assert time.monotonic() - began < 50
    assert len(list(tmp_path.iterdir())) == 1
