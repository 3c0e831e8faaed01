"""Bare dumps in time: how long their ranks had waited, and what several dumps of one rank show."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.answer.words import Certainty, Kind, Verdict
from tests.build.jobs.dumped import dumped_entry
from tests.build.jobs.judged import judged_files

BEGUN_NS = 1_750_000_000_000_000_000
SECOND = 1_000_000_000


def write(
    path: Path,
    *,
    issued: int,
    completed: int,
    waited: float,
    last_at: int = BEGUN_NS,
    backend: str = "gloo",
    op: str = "all_reduce",
    timeout_ms: Any = ...,
) -> None:
    """A dump whose newest operation was issued at `last_at`, written `waited` seconds later."""
    path.parent.mkdir(exist_ok=True, parents=True)
    times = {at: last_at - (issued - at) * SECOND // 20 for at in range(1, issued + 1)}
    entries = [
        dumped_entry(
            op_id=at,
            collective_seq_id=at,
            profiling_name=f"{backend}:all_reduce",
            state="completed" if at <= completed and backend == "nccl" else "scheduled",
            retired=at <= completed,
            time_created_ns=begun,
            timeout_ms=timeout_ms,
        )
        for at, begun in times.items()
    ]
    if entries:
        entries[-1]["profiling_name"] = f"{backend}:{op}"
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    path.write_text(json.dumps({"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}))
    written = last_at + int(waited * SECOND)
    os.utime(path, ns=(written, written))


def late(
    directory: Path,
    waited: float,
    *,
    at: int = 7,
    begun: int = BEGUN_NS,
    backend: str = "gloo",
    dated: bool = False,
    **told: Any,
) -> None:
    """Ranks 0 and 2 wait in operation `at`, which rank 1 has not issued. `dated`: the time stands beside it."""
    told |= {"waited": waited, "last_at": begun, "backend": backend}
    for rank in (0, 2):
        write(directory / f"trace_{rank}", issued=at, completed=at - 1, **told)
    write(directory / "trace_1", issued=at - 1, completed=at - 1, **told)
    if dated:
        (directory / "date").write_text(f"{begun // SECOND + int(waited)}\n")


COPIES: dict[str, Callable[[Path, int], int]] = {
    "as they were written": lambda file, at: file.stat().st_mtime_ns,
    "copied much later": lambda file, at: file.stat().st_mtime_ns + 86_400 * SECOND,
    "one after the other": lambda file, at: file.stat().st_mtime_ns + (60 + at) * SECOND,
    "all at one time": lambda file, at: BEGUN_NS + 3_600 * SECOND,
    "whole seconds": lambda file, at: file.stat().st_mtime_ns // SECOND * SECOND,
    "before the job": lambda file, at: 0,
    "touched at random": lambda file, at: BEGUN_NS + random.Random(at).randrange(-900, 9_000) * SECOND,
}
"""How copying changes when files say that they were written."""


@pytest.mark.parametrize("times", COPIES.values(), ids=COPIES)
def test_one_set_of_dumps_that_somebody_asked_for_accuses_nobody_whatever_its_times(
    tmp_path: Path, times: Callable[[Path, int], int]
) -> None:
    late(tmp_path, 0.04)
    for at, file in enumerate(sorted(tmp_path.iterdir())):
        os.utime(file, ns=(times(file, at),) * 2)
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "ranks 0,2 wait for rank 1 in all_reduce #7 of group default_pg" in answer.headline
    assert "once more, at least 10 s later" in answer.next_steps[0].text
    assert "`date +%s > DIR/second/date`" in answer.next_steps[0].text


@pytest.mark.parametrize("waited", [30.0, 1e6, -5.0], ids=["a hang", "a copy made later", "a clock that is off"])
def test_what_a_watchdog_wrote_was_not_written_before_its_time(tmp_path: Path, waited: float) -> None:
    late(tmp_path, waited, backend="nccl")
    assert [finding.culprit_ranks for finding in judged_files(tmp_path).findings] == [(1,)]


@pytest.mark.parametrize(
    ("waited", "certainty"),
    [(605.0, Certainty.PROVEN), (90.0, Certainty.SUPPORTED), (86_400.0, Certainty.SUPPORTED)],
    ids=["as it was written", "asked for, or copied at once", "copied much later"],
)
def test_what_no_watchdog_has_dated_is_not_proven(tmp_path: Path, waited: float, certainty: Certainty) -> None:
    """Its operations time out after ten minutes."""
    late(tmp_path, waited, backend="nccl", timeout_ms=600_000)
    (finding,) = judged_files(tmp_path).findings
    assert finding.certainty is certainty
    told = [remark for remark in finding.remarks if "two dumps of each rank 10 s apart" in remark]
    assert bool(told) == (certainty is not Certainty.PROVEN)


def test_dumps_of_a_watchdog_whose_times_are_near_what_is_waited_in_accuse_nobody(tmp_path: Path) -> None:
    late(tmp_path, 0.04, backend="nccl")
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "0.04 s" in answer.headline


def test_calls_that_do_not_match_need_no_second_dump(tmp_path: Path) -> None:
    for rank in range(3):
        write(
            tmp_path / f"trace_{rank}",
            issued=7,
            completed=6,
            waited=0.04,
            op="all_gather" if rank == 1 else "all_reduce",
        )
    (finding,) = judged_files(tmp_path).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (1,))


def test_dumps_of_one_rank_are_looks_and_a_rank_that_moved_between_them_runs(tmp_path: Path) -> None:
    for look in range(3):
        late(tmp_path / str(look), 0.04, at=7 + 20 * look, begun=BEGUN_NS + look * SECOND)
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "ranks 0-2 moved between the last two dumps" in answer.headline
    assert not any("trace" in gap.missing.source for gap in answer.coverage.missing)


def test_a_rank_that_moved_once_may_hang_since(tmp_path: Path) -> None:
    late(tmp_path / "before", 0.04)
    late(tmp_path / "since", 20.0, at=27, begun=BEGUN_NS + 3 * SECOND, dated=True)
    late(tmp_path / "still", 40.0, at=27, begun=BEGUN_NS + 3 * SECOND, dated=True)
    (finding,) = judged_files(tmp_path).findings
    assert (finding.culprit_ranks, finding.sequence) == ((1,), 27)


@pytest.mark.parametrize(
    ("first", "second", "culprits"),
    [
        pytest.param(20.0, 30.0, [(1,)], id="ten seconds apart"),
        pytest.param(20.0, 22.0, [], id="too near each other for a pause that ends"),
        pytest.param(30.0, 30.0, [], id="copied with new times"),
        pytest.param(-20.0, 40.0, [], id="written before what it holds"),
    ],
)
def test_dumps_that_stand_still_hang_if_they_are_far_enough_apart(
    tmp_path: Path, first: float, second: float, culprits: list[tuple[int, ...]]
) -> None:
    late(tmp_path / "first", first, dated=True)
    late(tmp_path / "second", second, dated=True)
    findings = judged_files(tmp_path).findings
    assert [finding.culprit_ranks for finding in findings] == culprits
    assert {finding.certainty for finding in findings} <= {Certainty.SUSPECTED}, "Gloo records no receives"


def cp(source: Path, to: Path) -> None:
    """As `cp -r`: files get the time at which they are copied."""
    shutil.copytree(source, to, copy_function=shutil.copyfile)


def cp_p(source: Path, to: Path) -> None:
    """As `cp -rp`, which keeps the times of files."""
    shutil.copytree(source, to)


def zipped(source: Path, to: Path) -> None:
    """As `zip -r`."""
    shutil.make_archive(str(to), "zip", source)


@pytest.mark.parametrize("copy", [cp, cp_p, zipped])
@pytest.mark.parametrize("dated", [False, True], ids=["", "with its date"])
@pytest.mark.parametrize("again", [cp, cp_p, zipped])
def test_one_set_that_is_copied_twice_is_one_look(
    tmp_path: Path, copy: Callable[[Path, Path], None], again: Callable[[Path, Path], None], *, dated: bool
) -> None:
    """Whenever that is done: a job that runs looks so, and a job that hangs does."""
    late(tmp_path / "original", 0.04, dated=dated)
    for folder, do, at in (("first", copy, 40), ("second", again, 900)):
        do(tmp_path / "original", tmp_path / "kept" / folder)
        for file in (tmp_path / "kept" / folder).glob("*"):
            os.utime(file, ns=(BEGUN_NS + at * SECOND,) * 2)
    answer = judged_files(tmp_path / "kept")
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    details = [gap.missing.detail for gap in answer.coverage.missing]
    assert sum("kept/first" in detail or "holds what first" in detail for detail in details) == 3
    assert "one dump of each rank does not show for how long" in answer.headline


def test_dumps_of_ranks_that_are_not_equally_far_apart_are_of_no_two_looks(tmp_path: Path) -> None:
    late(tmp_path / "first", 20.0, dated=True)
    late(tmp_path / "second", 40.0, dated=True)
    late(tmp_path / "third", 400.0, dated=True)
    for folder, rank in (("third", 0), ("third", 2), ("second", 1)):
        (tmp_path / folder / f"trace_{rank}").unlink()
    assert judged_files(tmp_path).verdict is Verdict.CANNOT_TELL


def test_dumps_of_a_job_that_runs_are_of_different_moments_whatever_their_copies_say(tmp_path: Path) -> None:
    """Of NCCL, whose watchdog may have written them: rank 0 has completed what takes rank 1, whose dump lacks it."""
    write(tmp_path / "trace_0", issued=9, completed=8, waited=7200.0, backend="nccl")
    write(tmp_path / "trace_1", issued=5, completed=4, waited=7200.0, backend="nccl")
    write(tmp_path / "trace_2", issued=7, completed=6, waited=7200.0, backend="nccl")
    answer = judged_files(tmp_path)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "rank 0 has completed all_reduce #7, which takes every member" in answer.headline


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
