"""What stands in one file beside something else: ranks above processes, frames in logs, whole files pasted together."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.files.pasted_files import pasted_files
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.jobs.folders import write_files
from tests.build.jobs.logged import caught
from tests.build.jobs.wrapped import PASTES, Paste
from tests.unit.collector.files.test_mixed_evidence import ELSEWHERE, WAITS, _stack
from tests.unit.collector.files.test_ras_reports import RAS_EXCERPT

FAILED_STACK = (
    "[rank{0}]:[E606 09:09:08.170090097 ProcessGroupNCCL.cpp:801] Stack trace of the failed collective:\n"
    + "#0 all_reduce from /opt/venv/torch/distributed/distributed_c10d.py:3252\n" * 80
    + "#81 c10d::ProcessGroupNCCL::workEnqueue from ??:0\n#82 clone from ./misc/clone.S:91\n"
)
TAIL_OF_IT = FAILED_STACK.partition("\n")[2]

TOOLS = {
    "nvidia-smi": "| NVIDIA-SMI 550.54.15     Driver Version: 550.54.15     CUDA Version: 12.4 |\n",
    "nvidia-smi --query-gpu": "index, name, utilization.gpu [%]\n0, NVIDIA H100 80GB HBM3, 100 %\n",
    "ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n",
    "sacct": "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode\n",
    "dcgmi": "Successfully ran diagnostic for group.\n+---------------------------+----------------+\n",
    "kubectl": "NAME        READY   STATUS    RESTARTS   AGE\ntrainer-0   1/1     Running   0          3h\n",
}


def dumps(*heads: str) -> str:
    """Return processes below their heads; that of pid 421 is the one that does not wait."""
    return "\n".join(head + "\n" + _stack(at, ELSEWHERE if at == 1 else WAITS) for at, head in enumerate(heads))


def judged(folder: Path, **files: str) -> Diagnosis:
    return diagnose_directory(write_files(folder, {f"{name}.txt": text for name, text in files.items()})).diagnosis


@pytest.mark.parametrize(
    "head",
    ["=== Rank {}: http://node02:60039/handler/pyspy_dump? ===", "# rank {} on node02", "Rank {}:", "[rank={}] stuck"],
)
def test_ranks_above_processes(head: str, tmp_path: Path) -> None:
    """In any order, as torch's debug server and people write them."""
    answer = judged(tmp_path, dumps=dumps(*(head.format(rank) for rank in (3, 0, 2, 1))))
    assert [finding.culprit_ranks for finding in answer.findings] == [(0,)]
    assert answer.coverage.seen == 4


@pytest.mark.parametrize("head", ["process {}", "local_rank {}", "as of rank {} I know nothing\n\n\n"])
def test_heads_that_tell_no_rank(head: str, tmp_path: Path) -> None:
    assert judged(tmp_path, dumps=dumps(*map(head.format, range(4)))).coverage.seen == 0


def test_ranks_that_two_files_claim_are_perhaps_local(tmp_path: Path) -> None:
    heads = [f"# rank {rank}" for rank in range(4)]
    assert judged(tmp_path, node1=dumps(*heads), node2=dumps(*heads)).coverage.seen == 0


@pytest.mark.parametrize("frames", [FAILED_STACK, TAIL_OF_IT], ids=["whole", "tail"])
def test_the_stack_of_a_failed_collective_is_of_a_log(frames: str, tmp_path: Path) -> None:
    """More than half of the first lines are frames, and the line that tells stands below them."""
    waits = {f"rank_{rank}": f"{frames.format(rank)}{caught(rank, 12)}\n" for rank in (0, 1, 3)}
    answer = judged(tmp_path, **waits, rank_2="[rank2]: Traceback (most recent call last):\n[rank2]: OSError: disk\n")
    assert {each.kind for each in answer.read} == {"log"}
    assert answer.verdict is Verdict.HUNG
    assert answer.findings[0].culprit_ranks == (2,)


@pytest.mark.parametrize("tool", TOOLS)
def test_output_of_other_tools(tool: str, tmp_path: Path) -> None:
    (read,) = judged(tmp_path, notes=TOOLS[tool]).read
    assert read.kind == f"output of {tool.partition(' --')[0]}"
    assert read.note == "no line of it is known to show trouble"


def test_output_of_a_tool_that_shows_nothing_of_a_job(tmp_path: Path) -> None:
    (read,) = judged(tmp_path, notes="top - 06:24:42 up 12 min,  0 user,  load average: 27.06, 14.12, 5.90\n").read
    assert (read.kind, read.note) == ("output of top", "it is not a kind of file that is read")


def test_a_log_that_quotes_a_tool_is_a_log(tmp_path: Path) -> None:
    (read,) = judged(tmp_path, notes=f"{TOOLS['nvidia-smi']}{caught(0, 12)}\n").read
    assert (read.kind, read.recognised) == ("log", 1)


VDSO = """Process 42{0}: python train.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 42{0} (active): "MainThread"
    {1}
    std::chrono::_V2::steady_clock::now (libstdc++.so.6.0.30)
    c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal (libtorch_cuda.so)
    step (train.py:41)
    <module> (train.py:70)
"""


@pytest.mark.parametrize("innermost", ["clock_gettime (??)", "0x7ffd1c5e4a3b ([vdso])", "clock_gettime (vdso.S:12)"])
def test_what_stands_above_a_wait_in_c_is_no_users_code(innermost: str, tmp_path: Path) -> None:
    """Whoever polls looks at the clock: the wait below it tells."""
    stacks = {f"stacks_rank_{rank}": VDSO.format(rank, innermost) for rank in (0, 1, 3)}
    answer = judged(tmp_path, **stacks, stacks_rank_2=_stack(2, ELSEWHERE))
    assert [finding.culprit_ranks for finding in answer.findings] == [(2,)]
    assert answer.findings[0].victims == "0-1,3"


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
