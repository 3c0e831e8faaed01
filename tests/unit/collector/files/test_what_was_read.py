"""What was read of each file, by reading real directories."""

import shutil
from pathlib import Path

from collector.files.diagnose_files import diagnose_directory
from collector.show.text.text import render_text
from shared.answer.words import Verdict

CASE = Path(__file__).parents[3] / "data" / "cases" / "missing_rank2"


def test_files_that_leave_it_open(tmp_path: Path) -> None:
    """Each with its kind, its lines, those that count, and why these do not suffice."""
    (tmp_path / "job.log").write_text("epoch 3\n[rank1]: ValueError: no such shard\nbye")
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    answer = diagnose_directory(tmp_path).diagnosis
    log, notes = answer.read
    assert (log.path, log.kind, log.lines, log.recognised) == ("job.log", "log", 3, 1)
    assert log.telling == ("[rank1]: ValueError: no such shard",)
    assert "does not show that others wait" in log.note
    assert (notes.lines, notes.recognised, notes.telling) == (1, 0, ())
    assert "no line of it is known" in notes.note
    assert "look again" not in " ".join(step.text for step in answer.next_steps)


def test_it_is_shown_where_the_verdict_is_open_alone(tmp_path: Path) -> None:
    """A verdict has its evidence."""
    (tmp_path / "job.log").write_text("epoch 3\n")
    assert "job.log: log, 1 line, none recognised" in render_text(
        diagnose_directory(tmp_path).diagnosis, colour=False, width=100
    )
    shutil.copytree(CASE, tmp_path / "case")
    hung = diagnose_directory(tmp_path).diagnosis
    assert hung.verdict is Verdict.HUNG
    assert {each.kind for each in hung.read} == {"flight record", "log"}
    assert "Files read" not in render_text(hung, colour=False, width=100)


def test_an_empty_dump_is_told_beside_full_ones(tmp_path: Path) -> None:
    """It was given, and holds nothing; an empty log is nothing remarkable."""
    shutil.copytree(CASE, tmp_path / "case")
    for name in ("trace_2", "rank2.log"):
        (tmp_path / name).write_text("")
    answer = diagnose_directory(tmp_path).diagnosis
    assert {each.path: each.kind for each in answer.read}["trace_2"] == "empty file"
    assert "trace_2" in {gap.missing.source for gap in answer.coverage.missing if "empty" in gap.missing.detail}
    assert "rank2.log" not in {gap.missing.source for gap in answer.coverage.missing}


def test_what_a_kernel_log_tells_is_shown_where_no_job_is_known(tmp_path: Path) -> None:
    """A card that is gone is no "none recognised"; whose it was nothing says."""
    stamp = "[Tue Nov 24 10:00:01 2026] "
    xid = "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus."
    (tmp_path / "dmesg.txt").write_text(
        f"{stamp}{xid}\n{stamp}usb 1-1: new device password=hunter2\n", encoding="utf-8"
    )
    diagnosis = diagnose_directory(tmp_path).diagnosis
    (read,) = diagnosis.read
    assert (diagnosis.verdict, read.kind, read.recognised, read.telling) == (
        Verdict.CANNOT_TELL,
        "kernel log",
        1,
        (xid,),
    )
    assert "trouble of a node" in read.note
