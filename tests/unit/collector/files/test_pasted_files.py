"""Several files pasted into one are read as if they lay beside each other."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.files.pasted_files import pasted_files
from shared.answer.diagnosis import Diagnosis
from tests.build.jobs.folders import write_files
from tests.build.jobs.logged import caught
from tests.build.jobs.wrapped import PASTES, Paste
from tests.unit.collector.files.test_mixed_evidence import ELSEWHERE, WAITS, _stack
from tests.unit.collector.files.test_ras_reports import RAS_EXCERPT

FILES = {
    **{f"stacks/rank_{rank}.txt": _stack(rank, ELSEWHERE if rank == 1 else WAITS) for rank in range(4)},
    "logs/rank3.log": caught(3, 7) + "\n",
    "ras.txt": RAS_EXCERPT,
}


def said(answer: Diagnosis) -> object:
    return answer.verdict, [(each.kind, each.culprit_ranks) for each in answer.findings], answer.coverage.seen


@pytest.mark.parametrize("paste", PASTES.values(), ids=PASTES)
def test_names_above_or_before(paste: Paste, tmp_path: Path) -> None:
    apart, pasted = tmp_path / "apart", tmp_path / "pasted"
    (apart / "stacks").mkdir(parents=True)
    (apart / "logs").mkdir()
    pasted.mkdir()
    wanted = said(diagnose_directory(write_files(apart, FILES)).diagnosis)
    answer = diagnose_directory(write_files(pasted, {"report.md": paste(FILES)})).diagnosis
    assert said(answer) == wanted
    assert [each.culprit_ranks for each in answer.findings] == [(1,)]
    assert {f"report.md!{name}" for name in FILES} <= {each.path for each in answer.read}


@pytest.mark.parametrize(
    "text",
    [
        "step 1\nsee train.log:\nloss 2\n",
        "train.py:12: UserWarning\ntrain.py:13: UserWarning\n",
        "loss 2\n```\nValueError: 1\n```\n",
        "==> no name\n",
        "",
    ],
)
def test_one_file(text: str) -> None:
    assert pasted_files(text) == {}


def test_many_fences_that_nothing_closes_take_no_time() -> None:
    assert list(pasted_files("a.log\n```x\n" * 50_000)) == ["a.log"]


def test_every_line_of_many_is_kept() -> None:
    lines = [f"rank_{at % 2}.log:{at}:step {at}\n" for at in range(50_000)]
    assert {name: text.count("\n") for name, text in pasted_files("".join(lines)).items()} == {
        "rank_0.log": 25_000,
        "rank_1.log": 25_000,
    }
