"""`--from DIR`: every kind of file, mixed, in any order; what is hostile or broken costs itself only."""

import gzip
import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.files.diagnose_files import diagnose_directory
from collector.files.read_directory import read_directory
from collector.files.tree.walk import Bounds
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
from tests.build.jobs.folders import PYSPY_JSON, dump_file, snapshot_file, tar_gz, write_files

PYSPY_TEXT = """Process 4242: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    load (data.py:7)
"""
FAULTHANDLER = 'Thread 0x00007f42aabbccdd (most recent call first):\n  File "/srv/data.py", line 7 in load\n'


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
    assert only_rank(read_directory(write_files(tmp_path, {f"{stem}3": dump_file(3)}))[0]).identity.rank == 3


def test_dump_that_names_no_rank_is_told(tmp_path: Path) -> None:
    """Nothing in a dump says whose it is; a name without a number leaves it unused."""
    snapshots, (missing,) = read_directory(write_files(tmp_path, {"dump": dump_file(0)}))
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
    rank = only_rank(read_directory(write_files(tmp_path, {name: content}))[0])
    assert isinstance(rank.stacks, Stacks)
    assert rank.identity.rank == 3
    assert rank.stacks.frames[0].function == "load"


def test_stack_dump_named_by_pid_is_no_rank(tmp_path: Path) -> None:
    """`stacks_4242.json` of process 4242 is not rank 4242."""
    (snapshot,), (missing,) = read_directory(write_files(tmp_path, {"stacks_4242.json": PYSPY_JSON}))
    assert snapshot.ranks == ()
    assert [each.file for each in snapshot.strays] == ["stacks_4242.json"]
    assert "its rank is unknown" in missing.detail


def test_stack_dump_named_by_pid_finds_its_rank_in_a_snapshot(tmp_path: Path) -> None:
    """Where a snapshot knows the process, its stacks go to that rank."""
    without = make_rank(2, host="node1", pid=4242).model_copy(
        update={"stacks": Missing(source="stacks", reason=Reason.NOT_PERMITTED)}
    )
    files = {"node1.json": snapshot_file("node1", without), "stacks_4242.json": PYSPY_JSON}
    snapshots, missing = read_directory(write_files(tmp_path, files))
    assert missing == ()
    assert isinstance(only_rank(snapshots).stacks, Stacks)


def test_bare_files_fill_what_the_last_look_lacks(tmp_path: Path) -> None:
    """A dump beside snapshots of the same job belongs to the rank there, not to another one of the same number."""
    looks = {f"look{at}.json": snapshot_file("node1", make_rank(0, host="node1"), at=at) for at in (1, 2)}
    snapshots, missing = read_directory(write_files(tmp_path, {**looks, "dump_0": dump_file(0)}))
    assert missing == ()
    recorders = {each.taken_at_ns: isinstance(each.ranks[0].recorder, Trace) for each in snapshots}
    assert recorders == {1: False, 2: True}


def test_what_a_snapshot_has_is_not_replaced(tmp_path: Path) -> None:
    """The snapshot's own record stands; that the file was not used is told."""
    look = snapshot_file("node1", *case_ranks("missing_rank2", (0,), host="node1"))
    snapshots, (missing,) = read_directory(write_files(tmp_path, {"look.json": look, "dump_0": dump_file(0)}))
    assert len(snapshots) == 1
    assert (missing.source, missing.reason) == ("dump_0", Reason.REFUSED)


def test_of_two_dumps_the_newer_is_used(tmp_path: Path) -> None:
    """Dumps of two incidents in one tree: the later record counts, the other is an earlier look."""
    older = pickle.loads(dump_file(0))
    for entry in older["entries"]:
        entry["time_created_ns"] -= 10**12
    snapshots, missing = read_directory(
        write_files(tmp_path, {"a/dump_0": pickle.dumps(older, 2), "b/dump_0": dump_file(0)})
    )
    assert not missing
    newer, before = (snapshot.ranks[0].recorder for snapshot in snapshots)
    assert isinstance(newer, Trace)
    assert isinstance(before, Trace)
    assert max(newer.created_ns) > max(before.created_ns)
    assert account_for_ranks(snapshots, Expected()).ranks[0].trace == newer


@pytest.mark.parametrize("name", ["slurm-4242.out", "train-3.log"])
def test_doubtful_number_of_a_log_is_no_rank(tmp_path: Path, name: str) -> None:
    """A job's common log is nobody's own: its lines accuse only whom they name."""
    files = {"dump_0": dump_file(0), name: "Traceback (most recent call last):\nValueError: bad batch\n"}
    (found,) = read_directory(write_files(tmp_path, files))[0]
    assert [rank.identity.rank for rank in found.ranks] == [0]
    assert found.logs is not None
    assert found.logs.files[0].path == name


def test_events_of_a_ranks_own_log(tmp_path: Path) -> None:
    """In a file that is named after a rank, unmarked lines are that rank's; secrets are taken out."""
    log = "token=abcdefghijklmnop\nTraceback (most recent call last):\nValueError: bad batch\n"
    rank = only_rank(read_directory(write_files(tmp_path, {"rank_1.log": log}))[0])
    assert isinstance(rank.logs, Logs)
    assert [(event.kind, event.rank) for event in rank.logs.events] == [(EventKind.EXCEPTION, 1)]
    assert "abcdefghijklmnop" not in rank.logs.model_dump_json()


def test_compressed_and_packed(tmp_path: Path) -> None:
    """gzip, tar, tar.gz and zip hold the same as plain files, told by content and not by suffix."""
    write_files(
        tmp_path,
        {"dump_0": gzip.compress(dump_file(0)), "plain": gzip.decompress(tar_gz({"deep/dump_1": dump_file(1)}))},
    )
    with zipfile.ZipFile(tmp_path / "packed", "w") as zipped:
        zipped.writestr("dump_2.gz", gzip.compress(dump_file(2)))
        zipped.writestr("dump_3", dump_file(3))
    snapshots, missing = read_directory(tmp_path)
    assert missing == ()
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [0, 1, 2, 3]


def test_one_file_instead_of_a_directory(tmp_path: Path) -> None:
    """`--from FILE` reads that file, such as a bundle."""
    assert only_rank(read_directory(write_files(tmp_path, {"dump_0": dump_file(0)}) / "dump_0")[0]).identity.rank == 0


def test_of_a_large_log_the_end_is_read(tmp_path: Path) -> None:
    """A log of gigabytes is no reason to leave it out: what matters stands at its end."""
    (tmp_path / "rank_0.log").write_text("".join(f"step {i}\n" for i in range(100_000)))
    rank = only_rank(read_directory(tmp_path, bounds=Bounds(most_bytes=1000, whole_log_bytes=5000))[0])
    assert not isinstance(rank.logs, Missing)
    assert rank.logs.files[0].lines[-1] == "step 99999"


@pytest.mark.parametrize("seed", range(5))
def test_order_of_files_changes_nothing(tmp_path: Path, seed: int) -> None:
    """Written in any order, a directory reads the same."""
    files = {f"dump_{rank}": dump_file(rank) for rank in range(4)}
    files |= {"rank_1.json": PYSPY_JSON.encode(), "rank2.log": b"x\n", "bad": b"\x00"}
    ordered = read_directory(write_files(tmp_path, dict(random.Random(seed).sample([*files.items()], len(files)))))
    assert [rank.identity.rank for rank in ordered[0][0].ranks] == [0, 1, 2, 3]
    assert diagnose_directory(tmp_path).diagnosis.findings[0].culprit_ranks == (2,)


def test_same_snapshot_twice_is_one_look(tmp_path: Path) -> None:
    """A copy is not a second look: it would show that nothing moved."""
    look = snapshot_file("node1", make_rank(0, host="node1"))
    assert len(read_directory(write_files(tmp_path, {"a.json": look, "b.json": look}))[0]) == 1


def test_empty_and_absent_directories(tmp_path: Path) -> None:
    """Nothing there: an error that says what belongs there."""
    with pytest.raises(NotFound) as caught:
        read_directory(tmp_path)
    assert "unhang snapshot" in caught.value.advice
    with pytest.raises(NotFound, match="does not exist"):
        read_directory(tmp_path / "nix")


def test_only_rubbish_cannot_be_told(tmp_path: Path) -> None:
    """Files, but none that helps: no verdict, and each file is named."""
    found = diagnose_directory(write_files(tmp_path, {"bad": b"\x00"}))
    assert found.diagnosis.verdict is Verdict.CANNOT_TELL
    assert found.expected.unreadable[0].source == "bad"


def test_job_is_chosen_as_on_a_live_cluster(tmp_path: Path) -> None:
    """The only job needs no name; a wrong name is not found."""
    write_files(tmp_path, {"look.json": snapshot_file("node1", make_rank(0, host="node1"))})
    assert diagnose_directory(tmp_path).expected.job == JOB
    with pytest.raises(NotFound, match="'other'"):
        diagnose_directory(tmp_path, job="other")


@pytest.mark.parametrize("name", ["trace-node03.out", "pyspy_gpu-host3.txt", "node-3.txt"])
def test_the_number_of_a_machine_is_no_rank(tmp_path: Path, name: str) -> None:
    snapshots, missing = read_directory(write_files(tmp_path, {name: PYSPY_TEXT}))
    assert not any(snapshot.ranks for snapshot in snapshots)
    assert "its rank is unknown" in missing[0].detail


def test_stacks_of_several_processes_in_one_file_are_not_one_rank(tmp_path: Path) -> None:
    _, missing = read_directory(
        write_files(tmp_path, {"stacks_3.txt": PYSPY_TEXT + PYSPY_TEXT.replace("4242", "4243")})
    )
    assert [each.source for each in missing] == ["stacks_3.txt", "stacks_3.txt"]


def test_a_gap_between_the_stacks_of_ranks_accuses_nobody(tmp_path: Path) -> None:
    waiting = PYSPY_TEXT.replace("load (data.py:7)", "all_reduce (torch/distributed/distributed_c10d.py:2810)")
    files = {f"stacks_rank_{rank}.txt": waiting for rank in (0, 1, 3)}
    assert not any(one.culprits for one in diagnose_directory(write_files(tmp_path, files)).diagnosis.findings)


def test_what_the_debug_server_writes_of_all_ranks_is_cut_into_ranks(tmp_path: Path) -> None:
    page = "".join(
        f"=== Rank {rank}: http://box:6{rank}001/handler/dump_traceback? ===\n{FAULTHANDLER}\n" for rank in (0, 4)
    )
    (snapshot,), missing = read_directory(write_files(tmp_path, {"stacks_20260102_030405.txt": page}))
    assert [rank.identity.rank for rank in snapshot.ranks] == [0, 4]
    assert not missing


def test_half_characters_in_names_and_lines(tmp_path: Path) -> None:
    """In the name of a file, of a frame and of a container's log line: the verdict can be kept, sent and shown."""
    half = "x\ud800"
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    for rank in (0, 1, 3):
        (folder / f"_dump_{rank}").write_bytes(dump_file(rank))
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
