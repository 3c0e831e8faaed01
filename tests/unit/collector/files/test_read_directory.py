"""`--from DIR`: every kind of file, mixed, in any order; what is hostile or broken costs itself only."""

import gzip
import io
import json
import os
import pickle
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.files.diagnose_files import diagnose_directory
from collector.files.read_directory import read_directory
from collector.files.walk import Bounds
from collector.keep.kept import Kept
from collector.show.html.page import render_report
from collector.show.html.report import report_of
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.words import Verdict
from shared.errors import NotFound
from shared.missing import Missing, Reason
from shared.wire.log_events import EventKind, Logs
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.stacks import Stacks
from shared.wire.trace import Trace
from tests.build.agents.fake_agents import CASES, JOB, case_ranks, make_rank

PYSPY_JSON = json.dumps(
    [
        {
            "pid": 4242,
            "thread_id": 1,
            "thread_name": "MainThread",
            "os_thread_id": 4242,
            "active": False,
            "owns_gil": False,
            "frames": [{"name": "load", "filename": "/srv/data.py", "module": None, "line": 7, "locals": None}],
            "process_info": None,
        }
    ]
)
PYSPY_TEXT = """Process 4242: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    load (data.py:7)
"""
FAULTHANDLER = 'Thread 0x00007f42aabbccdd (most recent call first):\n  File "/srv/data.py", line 7 in load\n'
RAS_TEXT = "NCCL version 2.28.9 compiled with CUDA 12.9\nCUDA runtime version 12090\n\nJob summary\n===========\n"
RAS_JSON = '{"nccl_version": "2.29.1", "communicators_count": 0, "communicators": [], "ras": {"timeouts_count": 0}}'


def dump(rank: int, case: str = "missing_rank2") -> bytes:
    """A recorder dump."""
    return (CASES / case / f"_dump_{rank}").read_bytes()


def snapshot(host: str, *ranks: RankSnapshot, at: int = 1) -> bytes:
    """One of our own snapshots as a file."""
    return NodeSnapshot(host=host, taken_at_ns=at, ranks=ranks).model_dump_json().encode()


def only_rank(snapshots: tuple[NodeSnapshot, ...]) -> RankSnapshot:
    """The one rank that was read."""
    (rank,) = [rank for each in snapshots for rank in each.ranks]
    return rank


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir() if path.is_dir()))
def test_recorded_cases(case: str) -> None:
    """A directory of dumps is one job of which nothing else is known."""
    snapshots, missing = read_directory(CASES / case)
    assert missing == ()
    assert [each.live for each in snapshots] == [False]
    assert all(isinstance(rank.recorder, Trace) for rank in snapshots[0].ranks)
    assert diagnose_directory(CASES / case).diagnosis.verdict is Verdict.HUNG


@pytest.mark.parametrize("stem", ["nccl_trace_rank_", "comm_lib_trace_rank_", "_dump_", "trace_rank_node02_"])
def test_rank_is_the_trailing_number_whatever_stands_before(tmp_path: Path, stem: str) -> None:
    """PyTorch lets users choose the stem; host names in it hold numbers too."""
    (tmp_path / f"{stem}3").write_bytes(dump(3))
    assert only_rank(read_directory(tmp_path)[0]).identity.rank == 3


def test_dump_that_names_no_rank_is_told(tmp_path: Path) -> None:
    """Nothing in a dump says whose it is; a name without a number leaves it unused."""
    (tmp_path / "dump").write_bytes(dump(0))
    snapshots, (missing,) = read_directory(tmp_path)
    assert snapshots == ()
    assert (missing.source, missing.reason) == ("dump", Reason.UNREADABLE)
    assert "its rank is unknown" in missing.detail


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rank_3.json", PYSPY_JSON),
        ("stacks-rank3.txt", PYSPY_TEXT),
        ("pyspy.3.txt", PYSPY_TEXT),
        ("rank3", FAULTHANDLER),
    ],
)
def test_stack_dumps(tmp_path: Path, name: str, content: str) -> None:
    """py-spy's two forms and faulthandler's are told by their content; the rank by the name."""
    (tmp_path / name).write_text(content)
    rank = only_rank(read_directory(tmp_path)[0])
    assert isinstance(rank.stacks, Stacks)
    assert rank.identity.rank == 3
    assert rank.stacks.frames[0].function == "load"


def test_stack_dump_named_by_pid_is_no_rank(tmp_path: Path) -> None:
    """`stacks_4242.json` of process 4242 is not rank 4242."""
    (tmp_path / "stacks_4242.json").write_text(PYSPY_JSON)
    (snapshot,), (missing,) = read_directory(tmp_path)
    assert snapshot.ranks == ()
    assert [each.file for each in snapshot.strays] == ["stacks_4242.json"]
    assert "its rank is unknown" in missing.detail


def test_stack_dump_named_by_pid_finds_its_rank_in_a_snapshot(tmp_path: Path) -> None:
    """Where a snapshot knows the process, its stacks go to that rank."""
    without = make_rank(2, host="node1", pid=4242).model_copy(
        update={"stacks": Missing(source="stacks", reason=Reason.NOT_PERMITTED)}
    )
    (tmp_path / "node1.json").write_bytes(snapshot("node1", without))
    (tmp_path / "stacks_4242.json").write_text(PYSPY_JSON)
    snapshots, missing = read_directory(tmp_path)
    assert missing == ()
    assert isinstance(only_rank(snapshots).stacks, Stacks)


def test_one_ranks_files_are_put_together(tmp_path: Path) -> None:
    """Recorder, stacks and log of a rank, in three directories, are one rank."""
    for name, content in (
        ("fr/dump_3", dump(3)),
        ("py/rank_3.json", PYSPY_JSON),
        ("log/rank3.log", b"step 1\nstep 2\n"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    rank = only_rank(read_directory(tmp_path)[0])
    assert isinstance(rank.recorder, Trace)
    assert isinstance(rank.stacks, Stacks)
    assert not isinstance(rank.logs, Missing)
    assert rank.logs.files[0].lines == ("step 1", "step 2")


def test_bare_files_fill_what_the_last_look_lacks(tmp_path: Path) -> None:
    """A dump beside snapshots of the same job belongs to the rank there, not to another one of the same number."""
    for at in (1, 2):
        (tmp_path / f"look{at}.json").write_bytes(snapshot("node1", make_rank(0, host="node1"), at=at))
    (tmp_path / "dump_0").write_bytes(dump(0))
    snapshots, missing = read_directory(tmp_path)
    assert missing == ()
    recorders = {each.taken_at_ns: isinstance(each.ranks[0].recorder, Trace) for each in snapshots}
    assert recorders == {1: False, 2: True}


def test_what_a_snapshot_has_is_not_replaced(tmp_path: Path) -> None:
    """The snapshot's own record stands; that the file was not used is told."""
    (tmp_path / "look.json").write_bytes(snapshot("node1", *case_ranks("missing_rank2", (0,), host="node1")))
    (tmp_path / "dump_0").write_bytes(dump(0))
    snapshots, (missing,) = read_directory(tmp_path)
    assert len(snapshots) == 1
    assert (missing.source, missing.reason) == ("dump_0", Reason.REFUSED)


def test_of_two_dumps_the_newer_is_used(tmp_path: Path) -> None:
    """Dumps of two incidents in one tree: the later record counts, the other is an earlier look."""
    older = pickle.loads(dump(0))
    for entry in older["entries"]:
        entry["time_created_ns"] -= 10**12
    for name, content in (("a/dump_0", pickle.dumps(older, 2)), ("b/dump_0", dump(0))):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    snapshots, missing = read_directory(tmp_path)
    assert not missing
    newer, before = (snapshot.ranks[0].recorder for snapshot in snapshots)
    assert isinstance(newer, Trace)
    assert isinstance(before, Trace)
    assert max(newer.created_ns) > max(before.created_ns)
    assert account_for_ranks(snapshots, Expected()).ranks[0].trace == newer


@pytest.mark.parametrize("name", ["slurm-4242.out", "train-3.log"])
def test_doubtful_number_of_a_log_is_no_rank(tmp_path: Path, name: str) -> None:
    """A job's common log is nobody's own: its lines accuse only whom they name."""
    (tmp_path / "dump_0").write_bytes(dump(0))
    (tmp_path / name).write_text("Traceback (most recent call last):\nValueError: bad batch\n")
    (found,) = read_directory(tmp_path)[0]
    assert [rank.identity.rank for rank in found.ranks] == [0]
    assert found.logs is not None
    assert found.logs.files[0].path == name


def test_lines_of_a_common_log_go_to_the_ranks_that_they_name(tmp_path: Path) -> None:
    """One file of all ranks: each marked line belongs to its rank, whether a dump of that rank is there or not."""
    (tmp_path / "dump_0").write_bytes(dump(0))
    (tmp_path / "slurm-4242.out").write_text(
        "step 7\n"
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/srv/train.py", line 9, in <module>\n'
        "[rank2]: ValueError: bad batch\n"
    )
    (found,) = read_directory(tmp_path)[0]
    assert [rank.identity.rank for rank in found.ranks] == [0, 2]
    assert isinstance(found.ranks[0].logs, Missing)
    assert isinstance(found.ranks[1].logs, Logs)
    (event,) = found.ranks[1].logs.events
    assert (event.kind, event.rank, event.path) == (EventKind.EXCEPTION, 2, "slurm-4242.out")
    assert found.logs is not None
    assert found.logs.events == ()


def test_events_of_a_ranks_own_log(tmp_path: Path) -> None:
    """In a file that is named after a rank, unmarked lines are that rank's; secrets are taken out."""
    (tmp_path / "rank_1.log").write_text(
        "token=abcdefghijklmnop\nTraceback (most recent call last):\nValueError: bad batch\n"
    )
    rank = only_rank(read_directory(tmp_path)[0])
    assert isinstance(rank.logs, Logs)
    assert [(event.kind, event.rank) for event in rank.logs.events] == [(EventKind.EXCEPTION, 1)]
    assert "abcdefghijklmnop" not in rank.logs.model_dump_json()


@pytest.mark.parametrize(("content", "version"), [(RAS_TEXT, "2.28.9"), (RAS_JSON, "2.29.1")])
def test_ras_files_are_read(tmp_path: Path, content: str, version: str) -> None:
    """RAS reports of both formats are recognised by their content and kept beside the snapshots."""
    (tmp_path / "ras").write_text(content)
    (snapshot,), missing = read_directory(tmp_path)
    assert missing == ()
    assert snapshot.ras is not None
    assert [network.nccl_version for network in snapshot.ras.networks] == [version]


def test_compressed_and_packed(tmp_path: Path) -> None:
    """gzip, tar, tar.gz and zip hold the same as plain files, told by content and not by suffix."""
    (tmp_path / "dump_0").write_bytes(gzip.compress(dump(0)))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("deep/dump_1")
        info.size = len(dump(1))
        archive.addfile(info, io.BytesIO(dump(1)))
    (tmp_path / "plain").write_bytes(packed.getvalue())
    with zipfile.ZipFile(tmp_path / "packed", "w") as zipped:
        zipped.writestr("dump_2.gz", gzip.compress(dump(2)))
        zipped.writestr("dump_3", dump(3))
    snapshots, missing = read_directory(tmp_path)
    assert missing == ()
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [0, 1, 2, 3]


def test_one_file_instead_of_a_directory(tmp_path: Path) -> None:
    """`--from FILE` reads that file, such as a bundle."""
    (tmp_path / "dump_0").write_bytes(dump(0))
    assert only_rank(read_directory(tmp_path / "dump_0")[0]).identity.rank == 0


def _gadget() -> bytes:
    class Gadget:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("touch /tmp/owned-by-a-pickle",)

    return pickle.dumps({"entries": [Gadget()]}, 2)


HOSTILE: tuple[tuple[str, bytes, Reason], ...] = (
    ("dump_9", _gadget(), Reason.UNREADABLE),
    ("dump_9", dump(1)[:-20], Reason.UNREADABLE),
    ("dump_9", b"\x80\x02X\xff\xff\xff\x7f", Reason.UNREADABLE),
    ("dump_9", b"\x80\x02" + b"]" * 3_000_000 + b".", Reason.UNREADABLE),
    ("dump_9", b'{"entries": ' + b"[" * 200_000, Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 1, "agent_version": "0", "ranks": ' + b"[" * 200_000, Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 1, "agent_version": "0", "ranks": [{"rank', Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 999, "agent_version": "9", "host": "n"}', Reason.UNREADABLE),
    ("rank_9.json", b'[{"thread_id": 1, "frames": 7}]', Reason.UNREADABLE),
    ("other.json", b'{"hello": "world"}', Reason.UNREADABLE),
    ("random", b"\x00\x01\x02" * 100, Reason.UNREADABLE),
    ("cut.gz", gzip.compress(os.urandom(10_000))[:-500], Reason.UNREADABLE),
    ("bomb.gz", gzip.compress(b"\x00" * 5_000_000), Reason.REFUSED),
    ("nested.tar.gz", b"", Reason.REFUSED),
    ("cut.tar", b"", Reason.UNREADABLE),
    ("cut.zip", b"PK\x03\x04 and then nothing", Reason.UNREADABLE),
)


@pytest.mark.parametrize(("name", "content", "reason"), HOSTILE, ids=[f"{i}-{row[0]}" for i, row in enumerate(HOSTILE)])
def test_hostile_file_costs_itself_only(tmp_path: Path, name: str, content: bytes, reason: Reason) -> None:
    """One broken or hostile file is one `Missing`, nothing of it is run, and the others are used."""
    if name == "nested.tar.gz":
        content = _tar_gz({"inner.tar.gz": _tar_gz({"dump_0": dump(0)})})
    if name == "cut.tar":
        content = gzip.decompress(_tar_gz({"dump_7": dump(0)}))[:1500]
    (tmp_path / "dump_1").write_bytes(dump(1))
    (tmp_path / name).write_bytes(content)
    snapshots, (missing,) = read_directory(tmp_path, bounds=Bounds(most_bytes=4_000_000))
    assert missing.source.startswith(name.removesuffix(".gz"))
    assert missing.reason is reason
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [1]
    assert not Path("/tmp/owned-by-a-pickle").exists()


def _tar_gz(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def test_archive_whose_header_claims_a_gigabyte(tmp_path: Path) -> None:
    """A claimed size is not believed: nothing is allocated for it."""
    info = tarfile.TarInfo("dump_0")
    info.size = 8**11 - 1
    (tmp_path / "claims").write_bytes(info.tobuf() + dump(0))
    pax = tarfile.TarInfo("pax")
    pax.type, pax.size = tarfile.XHDTYPE, 2**31
    (tmp_path / "header").write_bytes(pax.tobuf(tarfile.USTAR_FORMAT) + b"x" * 2000)
    (tmp_path / "dump_1").write_bytes(dump(1))
    snapshots, missing = read_directory(tmp_path)
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [1]
    assert {each.source.partition("!")[0] for each in missing} == {"claims", "header"}


def test_members_of_an_archive_cannot_be_links(tmp_path: Path) -> None:
    """A link or a device in an archive is told and passed over."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        link = tarfile.TarInfo("dump_0")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (tmp_path / "links.tar").write_bytes(packed.getvalue())
    _, (missing,) = read_directory(tmp_path)
    assert (missing.source, missing.reason) == ("links.tar!dump_0", Reason.REFUSED)


def test_links_fifos_and_sockets_are_not_opened(tmp_path: Path) -> None:
    """Links out of the tree, links in circles and FIFOs are told; a link within the tree is simply another name."""
    inside = tmp_path / "dir"
    inside.mkdir()
    (inside / "dump_0").write_bytes(dump(0))
    (inside / "again").symlink_to("dump_0")
    (inside / "out").symlink_to("/etc/passwd")
    (inside / "circle").symlink_to("circle")
    (inside / "up").symlink_to(tmp_path)
    os.mkfifo(inside / "fifo")
    snapshots, missing = read_directory(inside)
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [0]
    assert {each.source for each in missing} == {"out", "circle", "up", "fifo"}
    assert {each.reason for each in missing} == {Reason.REFUSED}


def test_bounds_on_number_and_total(tmp_path: Path) -> None:
    """Too many or too large files: what fits is used, the rest is told."""
    for rank in range(4):
        (tmp_path / f"dump_{rank}").write_bytes(dump(rank))
    snapshots, (missing,) = read_directory(tmp_path, bounds=Bounds(most_files=2))
    assert len(snapshots[0].ranks) == 2
    assert missing.source == "dump_2"
    snapshots, _ = read_directory(tmp_path, bounds=Bounds(most_bytes_in_all=5000))
    assert len(snapshots[0].ranks) == 2


def test_of_a_large_log_the_end_is_read(tmp_path: Path) -> None:
    """A log of gigabytes is no reason to leave it out: what matters stands at its end."""
    (tmp_path / "rank_0.log").write_text("".join(f"step {i}\n" for i in range(100_000)))
    rank = only_rank(read_directory(tmp_path, bounds=Bounds(most_bytes=1000, whole_log_bytes=5000))[0])
    assert not isinstance(rank.logs, Missing)
    assert rank.logs.files[0].lines[-1] == "step 99999"


@pytest.mark.parametrize("seed", range(5))
def test_order_of_files_changes_nothing(tmp_path: Path, seed: int) -> None:
    """Written in any order, a directory reads the same."""
    files = [(f"dump_{rank}", dump(rank)) for rank in range(4)]
    files += [("rank_1.json", PYSPY_JSON.encode()), ("rank2.log", b"x\n"), ("bad", b"\x00")]
    for name, content in random.Random(seed).sample(files, len(files)):
        (tmp_path / name).write_bytes(content)
    ordered = read_directory(tmp_path)
    assert [rank.identity.rank for rank in ordered[0][0].ranks] == [0, 1, 2, 3]
    assert diagnose_directory(tmp_path).diagnosis.findings[0].culprit_ranks == (2,)


def test_same_snapshot_twice_is_one_look(tmp_path: Path) -> None:
    """A copy is not a second look: it would show that nothing moved."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(snapshot("node1", make_rank(0, host="node1")))
    assert len(read_directory(tmp_path)[0]) == 1


def test_empty_and_absent_directories(tmp_path: Path) -> None:
    """Nothing there: an error that says what belongs there."""
    with pytest.raises(NotFound) as caught:
        read_directory(tmp_path)
    assert "unhang snapshot" in caught.value.advice
    with pytest.raises(NotFound, match="does not exist"):
        read_directory(tmp_path / "nix")


def test_only_rubbish_cannot_be_told(tmp_path: Path) -> None:
    """Files, but none that helps: no verdict, and each file is named."""
    (tmp_path / "bad").write_bytes(b"\x00")
    found = diagnose_directory(tmp_path)
    assert found.diagnosis.verdict is Verdict.CANNOT_TELL
    assert found.expected.unreadable[0].source == "bad"


def test_job_is_chosen_as_on_a_live_cluster(tmp_path: Path) -> None:
    """The only job needs no name; a wrong name is not found."""
    (tmp_path / "look.json").write_bytes(snapshot("node1", make_rank(0, host="node1")))
    assert diagnose_directory(tmp_path).expected.job == JOB
    with pytest.raises(NotFound, match="'other'"):
        diagnose_directory(tmp_path, job="other")


@pytest.mark.parametrize("name", ["trace-node03.out", "pyspy_gpu-host3.txt", "node-3.txt"])
def test_the_number_of_a_machine_is_no_rank(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PYSPY_TEXT)
    snapshots, missing = read_directory(tmp_path)
    assert not any(snapshot.ranks for snapshot in snapshots)
    assert "its rank is unknown" in missing[0].detail


def test_stacks_of_several_processes_in_one_file_are_not_one_rank(tmp_path: Path) -> None:
    (tmp_path / "stacks_3.txt").write_text(PYSPY_TEXT + PYSPY_TEXT.replace("4242", "4243"))
    _, missing = read_directory(tmp_path)
    assert [each.source for each in missing] == ["stacks_3.txt", "stacks_3.txt"]


def test_a_gap_between_the_stacks_of_ranks_accuses_nobody(tmp_path: Path) -> None:
    waiting = PYSPY_TEXT.replace("load (data.py:7)", "all_reduce (torch/distributed/distributed_c10d.py:2810)")
    for rank in (0, 1, 3):
        (tmp_path / f"stacks_rank_{rank}.txt").write_text(waiting)
    answer = diagnose_directory(tmp_path).diagnosis
    assert not any(finding.culprits for finding in answer.findings)


RAS_EXCERPT = """Warnings
========

#0-0 (77aa01b2c3d4e5f6) MISMATCH
  Communicator ranks have different collective operation counts
  7 ranks have launched up to operation 412
  1 ranks have launched up to operation 411
  Rank 3 -- GPU 3 managed by process 51207 on node 10.9.0.4
"""


def test_a_report_of_ras_may_be_pasted_from_its_warnings_on(tmp_path: Path) -> None:
    (tmp_path / "ras.txt").write_text(RAS_EXCERPT)
    answer = diagnose_directory(tmp_path).diagnosis
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "411" in answer.headline


def test_equal_reports_of_ras_in_text_are_two_where_a_minute_lies_between_their_files(tmp_path: Path) -> None:
    for at, name in enumerate(("first.txt", "second.txt")):
        (tmp_path / name).write_text(RAS_EXCERPT)
        os.utime(tmp_path / name, (1_750_000_000 + 60 * at,) * 2)
    assert "asked once" not in diagnose_directory(tmp_path).diagnosis.headline
    os.utime(tmp_path / "second.txt", (1_750_000_001,) * 2)
    assert "asked once" in diagnose_directory(tmp_path).diagnosis.headline


def test_a_log_below_a_report_of_ras_is_read(tmp_path: Path) -> None:
    (tmp_path / "pasted.txt").write_text(
        RAS_EXCERPT + "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: 1\n"
    )
    snapshots = read_directory(tmp_path)[0]
    assert any(snapshot.logs is not None for snapshot in snapshots)


def test_what_the_debug_server_writes_of_all_ranks_is_cut_into_ranks(tmp_path: Path) -> None:
    page = "".join(
        f"=== Rank {rank}: http://box:6{rank}001/handler/dump_traceback? ===\n{FAULTHANDLER}\n" for rank in (0, 4)
    )
    (tmp_path / "stacks_20260102_030405.txt").write_text(page)
    (snapshot,), missing = read_directory(tmp_path)
    assert [rank.identity.rank for rank in snapshot.ranks] == [0, 4]
    assert not missing


@pytest.mark.parametrize(
    "content",
    [
        "[2026-02-03 04:05:06] PEER_DEAD: Process 40117 on node 10.3.0.14 managing GPU 1\n",
        '{"timestamp": "2026", "group": "L", "event": "PEER_DEAD", "peer": {"host": "10.3.0.14", "pid": 40117}}',
    ],
    ids=["text", "JSON"],
)
def test_what_the_monitor_mode_of_ras_prints_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "ras").write_text(content)
    answer = diagnose_directory(tmp_path).diagnosis
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "could not reach pid 40117 on 10.3.0.14" in answer.headline


def test_half_characters_in_names_and_lines(tmp_path: Path) -> None:
    """In the name of a file, of a frame and of a container's log line: the verdict can be kept, sent and shown."""
    half = "x\ud800"
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    for rank in (0, 1, 3):
        (folder / f"_dump_{rank}").write_bytes(dump(rank))
    (folder / "2.json").write_text(PYSPY_JSON.replace('"load"', json.dumps(half)))
    line = '{"log":"ValueError: x\\ud800\\n","stream":"stderr","time":"2026-11-23T00:00:02Z"}'
    (tmp_path / "rank2.log").write_text(f"{line}\n" * 2)
    made = diagnose_directory(tmp_path)
    kept = Kept(diagnosis=made.diagnosis, expected=made.expected, snapshots=made.snapshots)
    shown = [
        made.diagnosis.model_dump_json(),
        *(snapshot.model_dump_json() for snapshot in made.snapshots),
        render_report(report_of(kept)),
        render_text(made.diagnosis, colour=False, width=100),
        render_markdown(made.diagnosis),
    ]
    for text in shown:
        text.encode()
    assert all(words in "".join(shown) for words in ("odd?/2.json", "x? (/srv/data.py:7)"))
