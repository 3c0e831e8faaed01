"""What NCCL's RAS has said of a job, as files: whole, pasted, asked twice, and below it a log."""

import os
from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.files.read_directory import read_directory
from shared.answer.words import Verdict
from tests.build.jobs.folders import write_files

RAS_TEXT = "NCCL version 2.28.9 compiled with CUDA 12.9\nCUDA runtime version 12090\n\nJob summary\n===========\n"
RAS_JSON = '{"nccl_version": "2.29.1", "communicators_count": 0, "communicators": [], "ras": {"timeouts_count": 0}}'


@pytest.mark.parametrize(("content", "version"), [(RAS_TEXT, "2.28.9"), (RAS_JSON, "2.29.1")])
def test_ras_files_are_read(tmp_path: Path, content: str, version: str) -> None:
    """RAS reports of both formats are recognised by their content and kept beside the snapshots."""
    (snapshot,), missing = read_directory(write_files(tmp_path, {"ras": content}))
    assert missing == ()
    assert snapshot.ras is not None
    assert [network.nccl_version for network in snapshot.ras.networks] == [version]


RAS_EXCERPT = """Warnings
========

#0-0 (77aa01b2c3d4e5f6) MISMATCH
  Communicator ranks have different collective operation counts
  7 ranks have launched up to operation 412
  1 ranks have launched up to operation 411
  Rank 3 -- GPU 3 managed by process 51207 on node 10.9.0.4
"""


def test_a_report_of_ras_may_be_pasted_from_its_warnings_on(tmp_path: Path) -> None:
    answer = diagnose_directory(write_files(tmp_path, {"ras.txt": RAS_EXCERPT})).diagnosis
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "411" in answer.headline


def test_equal_reports_of_ras_in_text_are_two_where_dates_beside_them_say_so(tmp_path: Path) -> None:
    """Times of files are those of copies."""
    for at, name in enumerate(("first", "second")):
        write_files(tmp_path, {f"{name}/ras.txt": RAS_EXCERPT})
        os.utime(tmp_path / name / "ras.txt", (1_750_000_000 + 60 * at,) * 2)
    assert "one look" in diagnose_directory(tmp_path).diagnosis.headline
    write_files(tmp_path, {"first/date": "1750000000\n", "second/date": "1750000060\n"})
    assert "one look" not in diagnose_directory(tmp_path).diagnosis.headline


def test_a_log_below_a_report_of_ras_is_read(tmp_path: Path) -> None:
    pasted = RAS_EXCERPT + "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: 1\n"
    assert any(one.logs is not None for one in read_directory(write_files(tmp_path, {"pasted.txt": pasted}))[0])


@pytest.mark.parametrize(
    "content",
    [
        "[2026-02-03 04:05:06] PEER_DEAD: Process 40117 on node 10.3.0.14 managing GPU 1\n",
        '{"timestamp": "2026", "group": "L", "event": "PEER_DEAD", "peer": {"host": "10.3.0.14", "pid": 40117}}',
    ],
    ids=["text", "JSON"],
)
def test_what_the_monitor_mode_of_ras_prints_is_told(tmp_path: Path, content: str) -> None:
    answer = diagnose_directory(write_files(tmp_path, {"ras": content})).diagnosis
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "could not reach pid 40117 on 10.3.0.14" in answer.headline
