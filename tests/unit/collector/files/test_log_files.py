"""Directories of nothing but logs: whose file is whose, which attempt counts, and what verdict they bear."""

from pathlib import Path

import pytest

from collector.files.read_directory import read_directory
from shared.answer.words import Verdict
from shared.wire.log_events import Logs
from shared.wire.snapshot import RankSnapshot
from tests.build.jobs.judged import judged_files
from tests.build.jobs.logged import call, caught, fingerprint, init, signal, status

TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\nValueError: no shard\n'
GLOO = "RuntimeError: [/src/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete\n"


def ranks(path: Path) -> dict[int, RankSnapshot]:
    return {rank.identity.rank: rank for snapshot in read_directory(path)[0] for rank in snapshot.ranks}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_torchruns_directories_are_named_by_rank_and_the_last_attempt_counts(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"run_x/attempt_0/{rank}/stderr.log", TRACEBACK if rank == 0 else GLOO)
        write(tmp_path / f"run_x/attempt_1/{rank}/stderr.log", TRACEBACK if rank == 2 else GLOO)
    found = judged_files(tmp_path)
    assert [finding.culprit_ranks for finding in found.findings] == [(2,)]
    assert sum("earlier attempt" in gap.missing.detail for gap in found.coverage.missing) == 3


def test_of_several_nodes_directories_nothing_tells_the_ranks(tmp_path: Path) -> None:
    for node in ("node1", "node2"):
        write(tmp_path / node / "attempt_0/0/stderr.log", TRACEBACK)
    assert ranks(tmp_path) == {}
    assert judged_files(tmp_path).verdict is Verdict.CANNOT_TELL


def test_one_common_log_with_marks(tmp_path: Path) -> None:
    lines = [line for rank in (0, 1, 3) for line in (caught(rank, 12), status(rank, 12, 12))] + [signal(2, 0, 11)]
    write(tmp_path / "slurm-4242.out", "\n".join(lines) + "\n")
    found = judged_files(tmp_path)
    assert [finding.culprit_ranks for finding in found.findings] == [(2,)]


def test_one_common_log_whose_lines_name_ranks_in_words_alone(tmp_path: Path) -> None:
    """The ranks that lines name are known, and nobody else is made up."""
    lines = [fingerprint(0, "20", 1, "21"), fingerprint(1, "21", 0, "20"), fingerprint(2, "21", 0, "20")]
    write(tmp_path / "train.out", "\n".join(lines))
    found = judged_files(tmp_path)
    assert [finding.culprit_ranks for finding in found.findings] == [(0,)]
    assert found.findings[0].victims == "1-2"


def test_debug_files_of_nccl_are_told_by_their_init_lines(tmp_path: Path) -> None:
    """`NCCL_DEBUG_FILE=nccl.%h.%p`: neither number is a rank."""
    for rank in range(4):
        calls = [call(4000 + rank, n, count=65 if rank == 1 and n == 9 else 64) for n in range(10)]
        write(tmp_path / f"nccl.node1.{4000 + rank}", "\n".join([init(4000 + rank, rank), *calls]) + "\n")
    found = judged_files(tmp_path)
    assert set(ranks(tmp_path)) == {0, 1, 2, 3}
    assert [finding.culprit_ranks for finding in found.findings] == [(1,)]
    assert found.coverage.expected == 4


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_nccl_lines_of_all_ranks_in_one_file(tmp_path: Path, order: tuple[int, ...]) -> None:
    lines = [init(4000 + rank, rank) for rank in order]
    lines += [
        call(4000 + rank, n, "AllGather" if (rank, n) == (2, 5) else "AllReduce") for n in range(6) for rank in order
    ]
    write(tmp_path / "job.log", "\n".join(lines) + "\n")
    found = judged_files(tmp_path)
    assert [finding.culprit_ranks for finding in found.findings] == [(2,)]


def test_the_worlds_size_is_taken_from_lines_where_there_are_logs_only(tmp_path: Path) -> None:
    line = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.\n"
    write(tmp_path / "rank_0.log", line)
    found = judged_files(tmp_path)
    assert found.coverage.expected == 4
    assert [finding.culprits for finding in found.findings] == [()]


def test_a_log_cut_in_mid_line_lacks_calls(tmp_path: Path) -> None:
    """Output to a pipe or file is written in blocks: who seems behind may have called what is lost."""
    for rank in range(4):
        calls = [call(4000 + rank, n) for n in range(8 if rank == 1 else 9)]
        cut = "\nnode1:4001:1 [0] NCCL" if rank == 1 else "\n"
        write(tmp_path / f"rank{rank}.log", "\n".join([init(4000 + rank, rank), *calls]) + cut)
    assert judged_files(tmp_path).verdict is Verdict.CANNOT_TELL


def test_logs_without_a_telling_line_say_so(tmp_path: Path) -> None:
    write(tmp_path / "rank0.log", "step 1\nstep 2\n")
    found = judged_files(tmp_path)
    assert (found.verdict, found.findings) == (Verdict.CANNOT_TELL, ())
    assert "logs" in found.headline


def test_many_ranks_may_share_a_file(tmp_path: Path) -> None:
    """Twelve hundred events: none is lost behind a bound that is meant for one rank."""
    lines = [line for rank in range(400) if rank != 5 for line in (caught(rank, 12), status(rank, 12, 12))]
    write(tmp_path / "job.log", "\n".join([signal(5, 0, 11), *lines]))
    assert [finding.culprit_ranks for finding in judged_files(tmp_path).findings] == [(5,)]
    assert isinstance(ranks(tmp_path)[399].logs, Logs)
