"""`unhang snapshot`: files that `--from` reads, whole or not at all."""

import gzip
import json
from pathlib import Path

from collector.files import read_directory
from shared.diagnosis import Diagnosis
from shared.snapshot import NodeSnapshot
from tests.cli.processes import FIRST, NOBODY, SECOND, Job, unhang


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
