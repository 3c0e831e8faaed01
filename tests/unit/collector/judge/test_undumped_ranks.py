"""A rank of which its log alone is there, beside the dumps of all others: a log more is never a verdict less."""

import shutil
from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Certainty, Kind, Verdict
from tests.build.jobs.dumps import CASES

FAILED = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 3, in <module>\nKeyError: 'shard'\n"
WAITED = (
    "[rank2]:[E1121 09:10:11.1 ProcessGroupNCCL.cpp:607] [Rank 2] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Dumps of ranks 0, 1 and 3, which wait for rank 2, in a folder of their own."""
    shutil.copytree(CASES / "rank2_dump_absent", tmp_path / "dumps")
    return tmp_path


def judged(folder: Path, name: str, text: str) -> Diagnosis:
    """The verdict with a log beside."""
    (folder / name).write_text(text)
    return diagnose_directory(folder).diagnosis


@pytest.mark.parametrize("name", ["rank2.log", "dumps/rank2.log", "logs_rank_2.txt"])
def test_that_failed_by_its_own_word_is_named(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (finding,) = judged(folder, name, FAILED).findings
    assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.RANK_NOT_JOINED, Cause.EXCEPTION, (2,))
    assert finding.certainty is Certainty.SUPPORTED
    assert any("KeyError: 'shard'" in str(item) for item in finding.evidence)


def test_that_says_nothing_of_itself_is_where_to_look(folder: Path) -> None:
    answer = judged(folder, "rank2.log", "step 3 loss 0.25\n")
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "wait for rank 2, which left no dump" in answer.headline


@pytest.mark.parametrize("text", [WAITED, WAITED + FAILED])
def test_that_waited_like_the_others_is_accused_of_nothing(folder: Path, text: str) -> None:
    answer = judged(folder, "rank2.log", text)
    assert not [rank for finding in answer.findings for rank in finding.culprit_ranks]
    assert "wait for rank 2" not in answer.headline
    assert not any("logs to the directory" in step.text for step in answer.next_steps)


def test_without_any_file_it_is_suspected_as_before(folder: Path) -> None:
    (finding,) = diagnose_directory(folder).diagnosis.findings
    assert (finding.kind, finding.certainty, finding.culprit_ranks) == (Kind.RANK_MISSING, Certainty.SUSPECTED, (2,))


def test_who_says_in_a_common_log_that_it_waited_is_not_suspected_for_its_dump(folder: Path) -> None:
    answer = judged(folder, "job.log", WAITED)
    assert 2 not in {rank for finding in answer.findings for rank in finding.culprit_ranks}
