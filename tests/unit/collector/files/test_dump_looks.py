"""Bare dumps in time: how long their ranks had waited, and what several dumps of one rank show."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from shared.answer.words import Verdict
from tests.build.jobs.judged import judged_files

BEGUN_NS = 1_750_000_000_000_000_000
SECOND = 1_000_000_000


def write(path: Path, *, issued: int, completed: int, waited: float, last_at: int = BEGUN_NS) -> None:
    """A dump of Gloo whose newest operation was issued at `last_at`, written `waited` seconds later."""
    path.parent.mkdir(exist_ok=True, parents=True)
    entries = [entry(at, at <= completed, last_at - (issued - at) * SECOND // 20) for at in range(1, issued + 1)]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    path.write_text(json.dumps({"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}))
    written = last_at + int(waited * SECOND)
    os.utime(path, ns=(written, written))


def entry(sequence: int, retired: bool, created_ns: int) -> dict[str, Any]:
    return {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": sequence,
        "op_id": sequence,
        "profiling_name": "gloo:all_reduce",
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "state": "scheduled",
        "retired": retired,
        "time_created_ns": created_ns,
    }


def late(directory: Path, waited: float, *, at: int = 7, begun: int = BEGUN_NS) -> None:
    """Ranks 0 and 2 wait in operation `at`, which rank 1 has not issued."""
    for rank in (0, 2):
        write(directory / f"trace_{rank}", issued=at, completed=at - 1, waited=waited, last_at=begun)
    write(directory / "trace_1", issued=at - 1, completed=at - 1, waited=waited, last_at=begun)


def test_dumps_that_were_written_after_a_moment_of_waiting_accuse_nobody(tmp_path: Path) -> None:
    late(tmp_path, 0.04)
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "0.04 s" in answer.headline


@pytest.mark.parametrize("waited", [30.0, 1e6, -5.0], ids=["a hang", "a copy made later", "a clock that is off"])
def test_any_other_time_of_a_file_excuses_nobody(tmp_path: Path, waited: float) -> None:
    late(tmp_path, waited)
    assert [finding.culprit_ranks for finding in judged_files(tmp_path).findings] == [(1,)]


def test_dumps_of_one_rank_are_looks_and_a_rank_that_moved_between_them_runs(tmp_path: Path) -> None:
    for look in range(3):
        late(tmp_path / str(look), 0.04, at=7 + 20 * look, begun=BEGUN_NS + look * SECOND)
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "ranks 0-2 moved between the last two dumps" in answer.headline
    assert not any("trace" in gap.missing.source for gap in answer.coverage.missing)


def test_a_rank_that_moved_once_may_hang_since(tmp_path: Path) -> None:
    late(tmp_path / "before", 0.04)
    late(tmp_path / "since", 60.0, at=27, begun=BEGUN_NS + 3 * SECOND)
    (finding,) = judged_files(tmp_path).findings
    assert (finding.culprit_ranks, finding.sequence) == ((1,), 27)


def test_dumps_that_stand_still_hang(tmp_path: Path) -> None:
    late(tmp_path / "first", 20.0)
    late(tmp_path / "second", 40.0)
    assert [finding.culprit_ranks for finding in judged_files(tmp_path).findings] == [(1,)]


def test_times_of_copies_tell_nothing(tmp_path: Path) -> None:
    """Copied together, the first look claims to be younger than operations that it does not hold."""
    for look in range(2):
        late(tmp_path / "dumps" / str(look), 0.04, at=7 + 20 * look, begun=BEGUN_NS + look * SECOND)
    shutil.copytree(tmp_path / "dumps", tmp_path / "copies", copy_function=shutil.copyfile)
    answer = judged_files(tmp_path / "copies")
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())


def test_what_only_its_end_has_not_been_written_down_is_no_hang(tmp_path: Path) -> None:
    """Gloo retires an operation a moment after its call returns: the job may have ended."""
    for rank in range(3):
        write(tmp_path / f"trace_{rank}", issued=7, completed=6 if rank == 1 else 7, waited=1e6)
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "all_reduce #7 of group default_pg is unfinished on rank 1" in answer.headline
