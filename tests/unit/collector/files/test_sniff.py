"""Files are told by their content: real beginnings, near misses, and anything at all."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.files.rank_of_file import rank_of_dump, rank_of_log, rank_of_stacks
from collector.files.sniff import FileKind, kind_of
from collector.keep.bundle import Manifest
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


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank_3.log", 3), ("logs/rank0/stdout.log", None), ("stderr-2.txt", 2), ("slurm-4242.out", None),
        ("train-9.log", None), ("rank12", 12), ("frankrank5.log", None), ("train.log.2", 2),
    ],
)  # fmt: skip
def test_ranks_of_logs(path: str, rank: int | None) -> None:
    """A number named `rank`, or a trailing one that is a rank known from elsewhere (here 0 to 3)."""
    assert rank_of_log(path, {0, 1, 2, 3}) == rank
