"""Stacks of processes whose rank nothing tells, and a kernel log by itself: a process may be told, a rank never is."""

from pathlib import Path

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Kind, Verdict
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.judged import judged_files

LOOP = """    train_one (train_gpt.py:210)
    main (train_gpt.py:301)
    <module> (train_gpt.py:310)
"""
WAITING = f"    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    sync (train_gpt.py:88)\n{LOOP}"
LOADING = f"    get (queue.py:171)\n    _try_get_data (torch/utils/data/dataloader.py:1131)\n{LOOP}"
WORKING = f"    tokenize (corpus.py:33)\n{LOOP}"
WORKER = f"    read (corpus.py:7)\n    _worker_loop (torch/utils/data/_utils/worker.py:351)\n{LOOP}"
LAUNCHER = "    _poll (subprocess.py:1999)\n    run (torch/distributed/run.py:900)\n    <module> (torchrun:8)\n"
BROKEN = "NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
UNDER = "NVRM: Xid (PCI:0000:5e:00): 74, pid=7301, name={}, NVLink: fatal error detected on link 8\n"
HELD = """INFO: task python3:7301 blocked for more than 241 seconds.
      Not tainted 6.8.0-41-generic #41
task:python3         state:D stack:0     pid:7301  tgid:7301  ppid:7288   flags:0x00000002
Call Trace:
 <TASK>
 __schedule+0x27c/0x6a0
 mlx5_cmd_exec+0x21/0x40 [mlx5_core]
"""


def main_thread(pid: int, frames: str) -> str:
    return f'Thread {pid} (active): "MainThread"\n{frames}'


def judged_texts(folder: Path, **texts: str) -> Diagnosis:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    answer = judged_files(folder)
    assert not any(finding.culprits or finding.victims for finding in answer.findings)
    return answer


def test_the_one_process_outside_communication_is_told(tmp_path: Path) -> None:
    """As on a page of notes: a heading, how many are alike, and one stack for all of these."""
    alike = "".join(f'Thread {pid} (active): "MainThread"\n' for pid in (7301, 7302, 7303))
    notes = f"Machine A:\n\n3 in:\n\n{alike}{WAITING}\n1 in:\n\n{main_thread(7304, LOADING)}"
    answer = judged_texts(tmp_path, machineA=notes)
    (finding,) = answer.findings
    assert (finding.kind, finding.cause) == (Kind.RANK_NOT_JOINED, Cause.DATALOADER)
    assert "process 7304 of machineA.txt" in answer.headline
    assert "3 other processes wait" in answer.headline


def test_work_of_its_own_code_counts_where_it_is_alone(tmp_path: Path) -> None:
    answer = judged_texts(tmp_path, a=main_thread(1, WAITING), b=main_thread(2, WAITING), c=main_thread(3, WORKING))
    assert answer.verdict is Verdict.HUNG
    assert "process 3 of c.txt" in answer.headline


@pytest.mark.parametrize(
    "others",
    [
        {"c": main_thread(3, WAITING)},
        {"c": main_thread(3, LAUNCHER)},
        {"c": main_thread(3, WORKER)},
        {"c": main_thread(3, WORKING), "d": main_thread(4, WORKING)},
    ],
    ids=["all wait", "a launcher", "a loader's worker", "half of them work"],
)
def test_nobody_is_told_where_none_stands_apart(tmp_path: Path, others: dict[str, str]) -> None:
    answer = judged_texts(tmp_path, a=main_thread(1, WAITING), b=main_thread(2, WAITING), **others)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "of unknown rank" in answer.headline


def test_collectives_of_two_kinds_have_parted(tmp_path: Path) -> None:
    apart = WAITING.replace("all_reduce", "reduce_scatter_tensor")
    (finding,) = judged_texts(tmp_path, a=main_thread(1, WAITING), b=main_thread(2, apart)).findings
    assert finding.kind is Kind.STUCK_TOGETHER
    assert "not in one operation" in finding.summary


def test_a_sender_and_a_receiver_rightly_differ(tmp_path: Path) -> None:
    sends = WAITING.replace("all_reduce", "send")
    receives = WAITING.replace("all_reduce", "recv")
    assert judged_texts(tmp_path, a=main_thread(1, sends), b=main_thread(2, receives)).findings == ()


def test_a_broken_gpu_is_told_beside_a_process_that_waits(tmp_path: Path) -> None:
    """Frames alone, under somebody's own words, are a stack as well."""
    answer = judged_texts(tmp_path, dmesg=f"[09:10~11:40] {BROKEN}", stuck=f"worker pid=7301 (active):\n{WAITING}")
    (finding,) = answer.findings
    assert (finding.kind, finding.cause) == (Kind.STUCK_TOGETHER, Cause.GPU_FAULT)
    assert "Xid 79" in answer.headline


def test_a_broken_gpu_alone_is_no_hang(tmp_path: Path) -> None:
    assert judged_texts(tmp_path, dmesg=BROKEN).findings == ()


def test_a_gpu_that_broke_under_a_process_of_a_job_is_told(tmp_path: Path) -> None:
    (finding,) = judged_texts(tmp_path, dmesg=UNDER.format("VLLM::Worker_TP")).findings
    assert (finding.kind, finding.cause, finding.culprits) == (Kind.STUCK_TOGETHER, Cause.GPU_FAULT, ())
    assert "process 7301 (VLLM::Worker_TP)" in finding.summary


def test_under_another_program_it_is_no_hang(tmp_path: Path) -> None:
    assert judged_texts(tmp_path, dmesg=UNDER.format("Xorg")).findings == ()


def test_what_the_kernel_holds_is_told_with_its_driver(tmp_path: Path) -> None:
    (finding,) = judged_texts(tmp_path, dmesg=HELD).findings
    assert finding.cause is Cause.NETWORK
    assert "process 7301 (python3)" in finding.summary


def test_a_task_of_the_kernels_own_accuses_nobody(tmp_path: Path) -> None:
    assert judged_texts(tmp_path, dmesg=HELD.replace("python3", "kworker/u96:2")).findings == ()


@pytest.mark.parametrize(("live", "verdict"), [(True, Verdict.CANNOT_TELL), (False, Verdict.HUNG)])
def test_a_running_nodes_kernel_tells_of_other_jobs_too(live: bool, verdict: Verdict) -> None:
    """Where no rank was seen, nothing shows that the process is one of this job's; a kept file is kept for its job."""
    stack = ("__schedule+0x27c/0x6a0", "mlx5_cmd_exec+0x21/0x40 [mlx5_core]")
    held = KernelEvent(kind=KernelEventKind.HUNG_TASK, text="blocked", pid=7301, name="python3", stack=stack)
    node = NodeSnapshot(host="a", taken_at_ns=1, live=live, kernel_events=KernelEvents(events=(held,)))
    assert diagnose([node], Expected()).verdict is verdict
