"""The table of statements: who waited, in what and how long, where the verdict names nobody."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.statements import Stated
from tests.build.jobs.logged import caught

STATUS = "[rank{}]:[E822 16:31:16.132 ProcessGroupNCCL.cpp:2271] [PG ID 4 PG GUID 67(dp) Rank {}] failure detected by watchdog at work sequence id: 12 PG status: last enqueued work: 14, last completed work: 11"  # noqa: E501
IN_MPI = (
    "#0  0x00007f31c0a1 in sched_yield () from /lib64/libc.so.6\n"
    "#1  0x00007f31c0a2 in opal_progress () at runtime/opal_progress.c:224\n"
    "#2  0x00007f31c0a3 in ompi_coll_base_allreduce_intra_ring (count=1) at base/coll_base_allreduce.c:341\n"
)
IN_NOTHING_KNOWN = (
    "#0  0x00007f31c0a1 in __lll_lock_wait () from /lib64/libc.so.6\n"
    "#1  0x00007f31c0a2 in event_del ()\n#2  0x00007f31c0a3 in tracker_destructor ()\n#3  0x00007f31c0a4 in main ()\n"
)
THREADS = """Thread 42 (idle): "MainThread"
    backward (torch/autograd/__init__.py:266)
    step (train.py:41)
Thread 4079 (active)
    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)
"""
HUNG = (
    "Nov 21 19:27:03 node7 kernel: INFO: task python3:4242 blocked for more than 120 seconds.\n"
    'Nov 21 19:27:03 node7 kernel: "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'
)
FELL = "NVRM: GPU Board Serial Number: 0\nNVRM: GPU 0000:06:00.0: GPU has fallen off the bus.\n"
GLUED = (
    "[default0]:step 7 | 4 it/s[default2]:[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught \ncollective operation "
    "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600888 milliseconds before timing out.\n"
)
WATCHDOGS = "".join(f"[2026-03-09 00:57:15 TP{at}] Watchdog timeout (self.watchdog_timeout=300)\n" for at in range(3))
CLOUD = "  | 2026-08-23T22:22:51.873Z | [rank4]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 4] Timeout at NCCL work: 704"
COUNTED = (
    "[rank0]: step 120 | loss 2.31\n[rank1]: step 118 | loss 2.4\n[rank1]: step 119 | loss 2.5e-1\n"
    "[rank2]: step 120 | loss 2.29\n"
)
REFUSED = (
    "node1:42:44 [0] NCCL INFO connect: No route to host, retrying (33/34)\n"
    "node1:42:44 [0] NCCL INFO connect: No route to host, retrying (34/34)\n"
    "node1:42:44 [0] NCCL INFO Channel 00/02 : 0 1\n"
)
BARRIER = (
    "Waiting in store based barrier to initialize process group for rank: {}, key: store_based_barrier_key:1 "
    "(world_size=16, worker_count=7, timeout=0:30:00)\n"
)
WAITS = "2026-06-15 10:45:21: I mesh_service.cc:208] Waiting to connect to client mesh master (300 seconds) 10.1.0.7\n"


@pytest.mark.parametrize(
    ("text", "states", "says"),
    [
        (f"{caught(0, 12)}\n{STATUS.format(0, 0)}\n{caught(3, 13)}\n", "waits waits silent", "#12 of group dp"),
        (caught(0, 12).replace("OpType", "OpTy\npe"), "waits", "rank 0 waited 10 minutes in all_reduce"),
        (GLUED, "waits silent", "rank 2 waited 10 minutes in all_reduce #3"),
        (WATCHDOGS, "waits", "the processes that call themselves TP0-2 waited 5 minutes: "),
        (WAITS, "waits", "waited 5 minutes: 2026-06-15"),
        (CLOUD, "waits silent", "rank 4 waited"),
        (THREADS, "waits", "waited in all_gather_into_tensor (in a collective"),
        (IN_MPI, "waits", "waited in allreduce (inside MPI"),
        (IN_NOTHING_KNOWN, "at", "__lll_lock_wait (/lib64/libc.so.6), called by event_del, called by tracker_destru"),
        ("".join(f"> {line}\n" for line in IN_MPI.splitlines()), "waits", "waited in allreduce (inside MPI"),
        (f"### Rank 0\n\n```\n{IN_MPI}```\n", "waits", "rank 0 waited in allreduce"),
        (f"Thread 103 (LWP 24453):\n{IN_MPI}", "waits", "waited in allreduce (inside MPI"),
        (HUNG, "waits", "process 4242 (python3) on node7 waited: INFO: task python3:4242 blocked for more than 120"),
        (HUNG.replace(" node7", ""), "waits", "process 4242 (python3) waited: INFO: task"),
        (f"{FELL}NVRM: rpcSend 12\n", "at failed", "the kernel: NVRM: GPU 0000:06:00.0: GPU has fallen off the bus."),
        ("[rank2]: step 7 took 300 seconds\n", "at silent", "rank 2 last wrote: [rank2]: step 7 took 300 seconds"),
        (COUNTED, "at at", "ranks 0,2 last wrote: [rank0]: step 120 | loss 2.31"),
        (COUNTED, "at at", "rank 1 last wrote: [rank1]: step 119 | loss 2.5e-1"),
        (f"{COUNTED}{caught(3, 12)}\n", "waits at at", "rank 1 last wrote: [rank1]: step 119"),
        (
            REFUSED,
            "at",
            "process 42 on node1 last wrote: node1:42:44 [0] NCCL INFO connect: No route to host, retrying",
        ),
        (BARRIER.format(6), "waits silent", "rank 6 waited: Waiting in store based barrier"),
        (BARRIER.format(6), "waits silent", "nothing is known of ranks 0-5,7-15"),
        (f"{BARRIER.format(6)}{WATCHDOGS}", "waits waits silent", "no line names ranks 0-5,7-15: any of them may be"),
    ],
)
def test_what_is_said(text: str, states: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text(text)
    answer = diagnose_directory(tmp_path).diagnosis
    assert [each.state for each in answer.statements] == [Stated(state) for state in states.split()]
    assert says in "\n".join(each.text for each in answer.statements)
    assert not any(finding.culprits for finding in answer.findings)


def test_a_rank_that_says_so_in_its_own_words_is_not_suspected_for_it(tmp_path: Path) -> None:
    """Of two that waited one speaks so that a row knows it: the other is no rank that logged anything but a wait."""
    (tmp_path / "job.txt").write_text(f"{caught(0, 12)}\n[rank1]: still waiting for the data server, 900 s so far\n")
    answer = diagnose_directory(tmp_path).diagnosis
    assert not any(finding.culprits for finding in answer.findings)
    assert "rank 1 waited 15 minutes" in "\n".join(each.text for each in answer.statements)


def test_whoever_is_named_needs_no_table(tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("[1,0]<stderr>:Stalled ops:HorovodBroadcast_bias_0 [missing ranks: 1]\n")
    answer = diagnose_directory(tmp_path).diagnosis
    assert (bool(answer.findings[0].culprits), answer.statements) == (True, ())
