"""A reader that fails costs the file that it failed at, and says so: of all others the verdict stands."""

from pathlib import Path

import pytest

from collector.files import log_files, parallel_dumps, read_directory
from collector.files.diagnose_files import diagnose_directory
from shared import isolation
from shared.answer.words import Verdict
from shared.missing import Reason
from tests.conftest import tell_failures
from tests.unit.collector.files.test_mixed_evidence import ELSEWHERE, WAITS, Seen, write

EVIDENCE = (Seen("stack", WAITS), Seen("stack", WAITS), Seen("stack", ELSEWHERE), Seen("own log", WAITS))


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it."""
    monkeypatch.setattr(isolation, "note", tell_failures)


def break_at(word: str, function: object, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let a marked function raise where an argument of it tells of a certain file."""
    right = function.__wrapped__  # type: ignore[attr-defined]

    def broken(*given: object) -> object:
        if word in getattr(given[at], "name", str(given[at])):
            raise ZeroDivisionError("a fault of ours")
        return right(*given)

    monkeypatch.setattr(function, "__wrapped__", broken)


@pytest.mark.parametrize(
    ("name", "function", "at"),
    [("rank_3.log", log_files._share, 0), ("notes.log", read_directory._Reading._read, 1)],
    ids=["lines of a log", "a file"],
)
def test_one_file(name: str, function: object, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "job", EVIDENCE)
    break_at(name, function, monkeypatch, at)
    answer = diagnose_directory(tmp_path / "job").diagnosis
    assert answer.verdict is Verdict.HUNG
    assert [finding.culprit_ranks for finding in answer.findings] == [(2,)]
    (gap,) = (gap.missing for gap in answer.coverage.missing if gap.missing.reason is Reason.FAILED)
    assert gap.source == name
    assert "ZeroDivisionError (a fault of ours)" in gap.detail


def test_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "job", [Seen("stack", WAITS), Seen("stack", ELSEWHERE), Seen("record", WAITS)])
    monkeypatch.setattr(parallel_dumps._answer, "__wrapped__", lambda *_: 1 / 0)
    answer = diagnose_directory(tmp_path / "job").diagnosis
    assert [finding.culprit_ranks for finding in answer.findings] == [(1,)]
    told = {gap.missing.source: gap.missing.reason for gap in answer.coverage.missing}
    assert told["flight records"] is Reason.FAILED
    assert told["nccl_trace_rank_2.json"] is Reason.UNREADABLE
