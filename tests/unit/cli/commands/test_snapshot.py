"""`unhang snapshot`: files that `--from` reads, whole or not at all, also where several write at once."""

import gzip
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.commands.diagnose import STATUS
from collector.files.read_directory import read_directory
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks
from tests.build.processes.commands import FIRST, LOCKED, LOCKED_OUT, NOBODY, SECOND, SLEEPER, Job, sleeping_job, unhang
from tests.build.processes.warm import Done


def test_looks_become_files(tmp_path: Path, job: Job) -> None:
    """One file per look, its path on stdout; together they are judged as two looks."""
    done = unhang("snapshot", "-o", str(tmp_path / "new"), "--looks", "2", "--interval", "0.2", "-v", env=job.env)
    assert done.status == 0
    files = [Path(line) for line in done.out.splitlines()]
    assert sorted((tmp_path / "new").iterdir()) == sorted(files)
    assert len(files) == 2
    assert "look 2 of 2" in done.err
    seen = NodeSnapshot.model_validate_json(gzip.decompress(files[0].read_bytes()))
    assert [rank.identity.rank for rank in seen.ranks] == [FIRST, SECOND]
    assert files[0].stat().st_mode & 0o077 == 0, "what is in it belongs to the job's owner"
    judged = Diagnosis.model_validate_json(unhang("diagnose", "--from", str(tmp_path / "new"), "--json").out)
    assert judged.coverage.with_stacks == 2


def test_to_standard_output(job: Job, tmp_path: Path) -> None:
    """JSON lines and nothing else; kept in a file they are read as the looks that they are."""
    done = unhang("snapshot", "-o", "-", "--looks", "2", "--interval", "0", "--stacks", "none", env=job.env)
    assert (done.status, done.err) == (0, "")
    assert [len(json.loads(line)["ranks"]) for line in done.out.splitlines()] == [2, 2]
    (tmp_path / "node07.json").write_text(done.out)
    snapshots, missing = read_directory(tmp_path)
    assert [len(snapshot.ranks) for snapshot in snapshots] == [2, 2]
    assert missing == ()
    (tmp_path / "node07.json").write_text(done.out[:-200])
    snapshots, (missed,) = read_directory(tmp_path)
    assert (len(snapshots), missed.reason) == (1, "unreadable")


@pytest.mark.ptrace
def test_native_stacks_of_whom_plain_ones_do_not_explain(tmp_path: Path) -> None:
    """By itself: two looks, and one more of the processes that need it, each a file; `--pid` names them otherwise."""
    with sleeping_job("suspects", (SLEEPER, LOCKED_OUT), log=tmp_path / "log", programs={LOCKED_OUT: LOCKED}) as job:
        done = unhang("snapshot", "-o", str(tmp_path / "looks"), "--interval", "0.2", "-v", env=job.env)
        asleep = job.ranks[0].pid
        chosen = unhang("snapshot", "-o", "-", "--looks", "1", "--stacks", "native", "--pid", str(asleep), env=job.env)
    assert (done.status, len(done.out.splitlines())) == (0, 3)
    assert "native stacks of 1 of them" in done.err
    snapshots, _ = read_directory(tmp_path / "looks")
    native = [
        rank for look in snapshots for rank in look.ranks if isinstance(rank.stacks, Stacks) and rank.stacks.native
    ]
    assert [rank.identity.rank for rank in native] == [LOCKED_OUT]
    (only,) = NodeSnapshot.model_validate_json(chosen.out).ranks
    assert (only.identity.pid, isinstance(only.stacks, Stacks) and only.stacks.native) == (asleep, True)


def test_nobody_there(tmp_path: Path, job: Job) -> None:
    """A node without ranks of the job writes no file, and says so."""
    for arguments in ((), ("--job", "nope")):
        env = job.env if arguments else {"UNHANG_AGENT_ONLY_RANKS": str(NOBODY)}
        done = unhang("snapshot", "-o", str(tmp_path), *arguments, env=env)
        assert (done.status, done.out) == (1, "")
        assert "no ranks" in done.err
    assert list(tmp_path.iterdir()) == []


def test_directory_that_cannot_be_written(job: Job) -> None:
    """Told in one sentence."""
    done = unhang("snapshot", "-o", "/proc/nope", env=job.env)
    assert done.status == 1
    assert "cannot be written" in done.err


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
