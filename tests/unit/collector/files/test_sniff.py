"""What files are, told by their content, and what was read of each: real beginnings, near misses, real directories."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.files.diagnose_files import diagnose_directory
from collector.files.rank_of_file import rank_of_dump, rank_of_stacks
from collector.files.sniff import FileKind, kind_of
from collector.keep.bundle import Manifest
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks

KINDS: tuple[tuple[bytes, FileKind], ...] = (
    (b"", FileKind.EMPTY),
    (b" \n\n", FileKind.EMPTY),
    (gzip.compress(b"x", mtime=0), FileKind.GZIP),
    (b"PK\x03\x04rest", FileKind.ZIP),
    (b"\x80\x02}q\x00.", FileKind.RECORDER),
    (b"\x80\x04\x95", FileKind.RECORDER),
    (b"\x80\x99", FileKind.LOG),
    (b"\x7fELF\x02\x01\x01\x00", FileKind.BINARY),
    (NodeSnapshot(host="n").model_dump_json().encode(), FileKind.SNAPSHOT),
    (NodeSnapshot(host="n").model_dump_json(indent=2).encode(), FileKind.SNAPSHOT),
    (Diagnosis(verdict=Verdict.HUNG, headline="x").model_dump_json().encode(), FileKind.DIAGNOSIS),
    (Manifest().model_dump_json().encode(), FileKind.MANIFEST),
    (b'{"comm_lib_version":"","entries":[{"collective_seq_id":1}]}', FileKind.RECORDER),
    (b'{"version":"2.10","pg_config":{},"pg_status":{}}', FileKind.RECORDER),
    (b'\xef\xbb\xbf{"version":"2.10","entries":[]}', FileKind.RECORDER),
    (b'{"nccl_version":"2.29.1","communicators_count":1,"communicators":[]}', FileKind.RAS),
    (b'{"nccl_version":"2.29.1","entries":[]}', FileKind.RECORDER),
    (b'{"hello": {"entries": []}}', FileKind.UNKNOWN_JSON),
    (b'{"entries', FileKind.UNKNOWN_JSON),
    (b'{"level":"info"}\n{"level":"error"}\n', FileKind.LOG),
    (b'{"level":"error","message":"lost {1}"}\n', FileKind.LOG),
    (b'{"level":"error","message":"lost"} end', FileKind.UNKNOWN_JSON),
    (b"[12345.678901] nvidia: module license taints kernel", FileKind.KERNEL),
    (b"[1763716211.123456] [node1:42:0]         select.c:438  UCX  ERROR no", FileKind.LOG),
    (b'[{"pid": 1, "thread_id": 7, "frames": []}]', FileKind.PYSPY_JSON),
    (b'[\n  {\n    "pid": 1,\n    "thread_id": 7', FileKind.PYSPY_JSON),
    (b'[{"a": 1}]', FileKind.UNKNOWN_JSON),
    (b"[]", FileKind.UNKNOWN_JSON),
    (b"[rank0]:[E1121 10:00:00.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog", FileKind.LOG),
    (b"[2026-11-21 10:00:00] step 1", FileKind.LOG),
    (b"{not json at all", FileKind.LOG),
    (b"Traceback (most recent call last):\n  File", FileKind.LOG),
    (b"Thread pool started with 8 workers", FileKind.LOG),
    (b"Process group initialised", FileKind.LOG),
    (b"NCCL version 2.28.9 compiled with CUDA 12.9\n\nJob summary\n", FileKind.RAS),
    (b"NCCL version 2.28.9+cuda12.9\nnode1:1:1 [0] NCCL INFO Bootstrap", FileKind.LOG),
    ("latin-1 text with \xe9".encode("latin-1"), FileKind.LOG),
)


@pytest.mark.parametrize(("data", "kind"), KINDS, ids=[repr(row[0][:24]) for row in KINDS])
def test_kinds(data: bytes, kind: FileKind) -> None:
    """Each beginning is what it is."""
    assert kind_of(data) is kind


@given(st.binary(max_size=300))
def test_any_bytes_are_of_some_kind(data: bytes) -> None:
    """Nothing makes the reading of a file's kind fail."""
    assert kind_of(data) in FileKind


@given(st.recursive(st.none() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_is_of_some_kind(value: object) -> None:
    """Keys deep inside, braces in strings: only the top's keys count."""
    assert kind_of(json.dumps({"outer": value}).encode()) is FileKind.UNKNOWN_JSON


NO_STACKS = Stacks(pid=4242)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("nccl_trace_rank_3", 3), ("_dump_0", 0), ("a/b/trace_12", 12), ("x.tar!fr/nccl_trace_rank_node02_5", 5),
        ("trace_3.json", 3), ("trace_3.pkl.gz.json", None), ("dump", None),
        ("dump_20261121000003", None), ("dump_9999999", None),
    ],
)  # fmt: skip
def test_ranks_of_dumps(path: str, rank: int | None) -> None:
    """The trailing number, if a rank can be that large."""
    assert rank_of_dump(path) == rank


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank_3.json", 3), ("rank3-4242.json", 3), ("node1-rank-7-stacks.txt", 7), ("stacks.5.txt", 5),
        ("4242.json", None), ("pyspy-4242.txt", None), ("known-4243.json", 4243), ("crank3.txt", None),
        ("stacks.txt", None),
    ],
)  # fmt: skip
def test_ranks_of_stacks(path: str, rank: int | None) -> None:
    """A number named `rank`, else a trailing one, unless it is the process's own."""
    assert rank_of_stacks(path, NO_STACKS, {}) == rank


def test_rank_of_stacks_by_pid() -> None:
    """A snapshot that knows the process knows the rank, rank 0 too."""
    assert rank_of_stacks("4242.json", NO_STACKS, {4242: 0}) == 0


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
