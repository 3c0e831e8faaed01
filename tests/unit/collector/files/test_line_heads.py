"""What others put before each line of a text, and around it, does not hide what the text says."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.diagnosis import Diagnosis
from shared.formats.line_heads import headed
from tests.build.jobs.folders import write_files
from tests.build.jobs.wrapped import HEADS, headed_text
from tests.unit.collector.files.test_parts import dumps
from tests.unit.collector.files.test_ras_reports import RAS_EXCERPT
from tests.unit.collector.files.test_stacks_of_others import READS

LOG = """step 118 loss 2.3
Traceback (most recent call last):
  File "/srv/train.py", line 9, in <module>
    main()

ValueError: no shard
W1121 09:10:11.123000 4242 torch/distributed/elastic/multiprocessing/api.py:988] Sending process 42 closing signal
[rank2]:[E1121 09:30:11.123 ProcessGroupNCCL.cpp:655] [Rank 2] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600066 milliseconds before \
timing out.
"""
TEXTS = {"log": LOG, "py-spy": dumps(*(f"# rank {rank}" for rank in range(4))), "RAS": RAS_EXCERPT, "gdb": READS}


def read(folder: Path, text: str) -> Diagnosis:
    folder.mkdir()
    return diagnose_directory(write_files(folder, {"pasted.txt": text})).diagnosis


def said(answer: Diagnosis) -> object:
    """Of an answer, but for the node that a head names."""
    found = [(each.kind, each.culprit_ranks) for each in answer.findings]
    headline = answer.headline.replace(" on gpu17", "")
    return answer.verdict, headline, found, answer.coverage.seen, [each.kind for each in answer.read]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_heads_change_nothing(head: str, text: str, tmp_path: Path) -> None:
    plain = read(tmp_path / "plain", text)
    assert plain.read[0].kind != "log" or plain.findings
    assert said(read(tmp_path / "headed", headed_text(head, text))) == said(plain)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_block_of_code(text: str, tmp_path: Path) -> None:
    assert said(read(tmp_path / "fenced", f"```text\n{text}```\n")) == said(read(tmp_path / "plain", text))


def test_tracebacks_of_two_pods_are_kept_apart() -> None:
    trace = ["Traceback (most recent call last):", '  File "/srv/train.py", line 9, in <module>', "ValueError: {}"]
    lines = [f"[pod/train-{pod}/pytorch] {line.format(pod)}" for line in trace for pod in range(2)]
    assert {each.label for each in headed(lines)} == {"pod/train-0", "pod/train-1"}
    assert [each.line for each in headed(lines)][::2] == [line.format(0) for line in trace]


@pytest.mark.parametrize(
    "lines",
    [
        ["2026-11-23 00:00:02 step 1", "loss 2.3", "loss 2.2"],
        ["[2026-03-09 00:57:15 TP0] step 1", "[2026-03-09 00:57:16 TP1] step 1"],
        ["resnet-50 epoch 1", "resnet-50 epoch 2 of 9", "loss 3"],
        ["12 loss 2.3", "13 loss 2.2", "14 loss 2.1"],
    ],
)
def test_what_stands_before_some_lines_or_is_their_own_is_no_head(lines: list[str]) -> None:
    assert [each.line for each in headed(lines)] == lines
