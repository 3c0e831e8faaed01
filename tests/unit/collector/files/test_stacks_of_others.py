"""Stacks as others keep them: backtraces of gdb, what a server's watchdog writes into its log, a test harness's."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from shared.formats.stack_parts import Tool, parts_of
from tests.build.jobs.folders import write_files

IN_NCCL = """(gdb) thread apply all bt

Thread 2 (Thread 0x7f31c0a1 (LWP 71{0})):
#0  0x00007f31c0b1 in poll () from /lib64/libc.so.6
#1  0x00007f31c0b2 in ncclProxyService (_args=0x55) at proxy.cc:1437

Thread 1 (Thread 0x7f31c0a2 (LWP 70{0}) "python")
#0  0x00007f31c0c1 in sched_yield () at ../sysdeps/syscall-template.S:120
#1  **0x00007f31c0c2 in ncclGroupEnd ()**
   from /opt/lib/libnccl.so.2
#2  0x00007f31c0c3 in c10d::ProcessGroupNCCL::allreduce_impl (this=0x1,
    opts=...) at ProcessGroupNCCL.cpp:4100
#3  0x00007f31c0c4 in _start ()
"""
LOADS = """Thread 1 (LWP 703):
#0  0x00007f31c0d1 in openat () from /lib64/libc.so.6
#1  0x00007f31c0d2 in dlopen () from /lib64/libc.so.6
#2  0x00007f31c0d3 in _start ()
"""
READS = """#0  0x00007f31c0d1 in read () from /lib64/libc.so.6
#1  0x00007f31c0d3 in _start ()
"""
PYSTACK = """Traceback for thread 43 (python) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
        self._bootstrap_inner()
    (Python) File "/usr/lib/python3.11/threading.py", line 982, in run

Traceback for thread 42 (python) [Has the GIL] (most recent call last):
    (Python) File "/srv/train.py", line 9, in <module>
        main()
    (Python) File "{0}", line 77, in {1}
"""
SCHEDULER = """[2026-04-05 06:07:08 TP{0}] Pyspy dump for PID 70{0} (py-spy dump --native --pid 70{0}):
Process 70{0}: {1}
Python v3.12.3 (/usr/bin/python3.12)

Thread 70{0} (active): "MainThread"
    {2}
    forward (models/decoder.py:12)
    run_scheduler_process (scheduler.py:2313)
Thread 71{0} (idle): "Thread-1 (watchdog)"
    select (selectors.py:415)

[2026-04-05 06:07:08 TP{0}] Watchdog timeout (self.watchdog_timeout=300)
"""
REDUCES = "all_reduce (torch/distributed/distributed_c10d.py:3252)"
HARNESS = """Process {} timed out with traceback:
Current thread 0x00007ff3363ff700 (most recent call first):
  File "threading.py", line 870 in run

Thread 0x00007ff406132180 (most recent call first):
  File "{}", line 77 in {}
  File "multiprocessing/process.py", line 108 in run
"""


def judged(folder: Path, files: dict[str, str]) -> Diagnosis:
    """The verdict on some files."""
    return diagnose_directory(write_files(folder, files)).diagnosis


class TestGdb:
    @pytest.mark.parametrize("text", [IN_NCCL.format(0), LOADS, READS, f"(gdb) bt\n{READS}"])
    def test_is_recognised(self, text: str) -> None:
        parts, _ = parts_of(text)
        assert [part.tool for part in parts] == [Tool.GDB]

    @pytest.mark.parametrize(
        "text",
        [
            "#0 of 4 shards\n#1 of 4 shards\nstep 1\nstep 2\nstep 3\nstep 4\n",
            "[rank0]: frame #0: c10::Error::Error(x) + 0x57 (0x7f in /lib/libc10.so)\n" * 3,
        ],
    )
    def test_a_log_is_not(self, text: str) -> None:
        assert parts_of(text)[0] == []

    def test_the_rank_that_stands_elsewhere_is_named(self, tmp_path: Path) -> None:
        files = {f"rank_{rank}.txt": IN_NCCL.format(rank) for rank in (0, 1, 2)}
        found = judged(tmp_path, files | {"rank_3.txt": LOADS})
        (finding,) = found.findings
        assert (found.verdict, finding.kind) == (Verdict.HUNG, Kind.RANK_NOT_JOINED)
        assert (finding.culprit_ranks, finding.victims) == ((3,), "0-2")

    def test_a_place_that_tells_nothing_accuses_nobody(self, tmp_path: Path) -> None:
        files = {f"rank_{rank}.txt": IN_NCCL.format(rank) for rank in (0, 1, 2)}
        assert not any(finding.culprits for finding in judged(tmp_path, files | {"rank_3.txt": READS}).findings)

    def test_who_waits_for_a_thread_of_its_own_that_waits_is_a_victim(self, tmp_path: Path) -> None:
        files = {f"rank_{rank}.txt": IN_NCCL.format(rank) for rank in (0, 1, 2)}
        locked = IN_NCCL.format(3).replace("sched_yield", "PyThread_acquire_lock_timed").replace("Thread 2", "Thread 3")
        in_thread = locked.replace("ncclGroupEnd", "acquire_timed").replace("ProcessGroupNCCL::allreduce", "Caller::go")
        found = judged(tmp_path, files | {"rank_3.txt": in_thread})
        assert not any(finding.culprits for finding in found.findings)


class TestPystack:
    """What `pystack remote` printed, one file for each rank."""

    @pytest.mark.parametrize("begins", ["", "$ pystack remote 42\n"])
    def test_the_rank_that_stands_elsewhere_is_named(self, tmp_path: Path, begins: str) -> None:
        reduces = ("/opt/torch/distributed/distributed_c10d.py", "all_reduce")
        files = {f"rank_{rank}.txt": begins + PYSTACK.format(*reduces) for rank in (0, 1, 2)}
        found = judged(tmp_path, files | {"rank_3.txt": begins + PYSTACK.format("/srv/data.py", "load")})
        (finding,) = found.findings
        assert (found.verdict, finding.kind, finding.culprit_ranks) == (Verdict.HUNG, Kind.RANK_NOT_JOINED, (3,))

    def test_of_one_rank_alone_nobody_is_named(self, tmp_path: Path) -> None:
        found = judged(
            tmp_path, {"rank_0.txt": PYSTACK.format("/opt/torch/distributed/distributed_c10d.py", "barrier")}
        )
        assert not any(finding.culprits for finding in found.findings)


class TestServersLog:
    @staticmethod
    def log(*titles: str) -> str:
        begin = "".join(f"[2026-04-05 06:0{minute}:00] INFO: up\n" for minute in range(5))
        stands = "_apply (penaltylib/min_tokens.py:78)"
        return begin + "".join(
            SCHEDULER.format(at, title, stands if at == 2 else REDUCES) for at, title in enumerate(titles)
        )

    @pytest.mark.parametrize("prefix", ["", "server-1  | "])
    def test_its_processes_are_ranks_by_their_titles(self, tmp_path: Path, prefix: str) -> None:
        text = self.log(*(f"sglang::scheduler_TP{at}" for at in range(4)))
        found = judged(tmp_path, {"server.log": "".join(f"{prefix}{line}\n" for line in text.splitlines())})
        (finding,) = found.findings
        assert (finding.culprit_ranks, finding.victims) == ((2,), "0-1,3")

    @pytest.mark.parametrize("title", ["sglang::scheduler_PP{}_TP0", "python serve.py --shard {}"])
    def test_without_such_titles_a_process_is_told(self, tmp_path: Path, title: str) -> None:
        found = judged(tmp_path, {"server.log": self.log(*(title.format(at) for at in range(4)))})
        (finding,) = found.findings
        assert finding.culprits == ()
        assert "process 702" in finding.summary

    def test_what_else_it_says_counts(self, tmp_path: Path) -> None:
        died = "Worker proc VllmWorker-5 died unexpectedly, shutting down executor.\n"
        found = judged(tmp_path, {"server.log": self.log("VLLM::Worker_TP0") + died})
        assert "VllmWorker-5" in found.model_dump_json()

    def test_two_servers_have_no_ranks_in_common(self, tmp_path: Path) -> None:
        text = self.log(*(f"sglang::scheduler_TP{at}" for at in range(4)))
        assert not any(f.culprits for f in judged(tmp_path, {"a.log": text, "b.log": text}).findings)


def test_a_harness_tells_the_rank(tmp_path: Path) -> None:
    barrier = ("torch/distributed/distributed_c10d.py", "barrier")
    text = "\n".join(HARNESS.format(at, *(("/srv/shards.py", "build") if at == 1 else barrier)) for at in range(3))
    (finding,) = judged(tmp_path, {"out.txt": text}).findings
    assert (finding.culprit_ranks, finding.victims) == ((1,), "0,2")


class TestByRanks:
    WAITS = "Ranks 0,1,3: barrier (torch/distributed/distributed_c10d.py:5030)\n"

    def test_who_stands_elsewhere_is_named(self, tmp_path: Path) -> None:
        text = self.WAITS + "Rank 2:\n  build (planner.py:77)\n  forward (planner.py:12)\n"
        (finding,) = judged(tmp_path, {"notes.txt": text}).findings
        assert (finding.culprit_ranks, finding.victims) == ((2,), "0-1,3")

    def test_who_prepares_the_data_for_all_is_at_work(self, tmp_path: Path) -> None:
        text = self.WAITS + "Rank 2:\n  _recv (connection.py:7)\n  map (datasets/arrow_dataset.py:3623)\n"
        found = judged(tmp_path, {"notes.txt": text})
        assert (found.verdict, found.findings) == (Verdict.CANNOT_TELL, ())
        assert "rank 2 is preparing a data set" in found.headline

    def test_a_process_beside_is_of_no_rank(self, tmp_path: Path) -> None:
        text = self.WAITS + "Rank 2 worker (one of 4):\n  decode (frames.py:77)\n  forward (frames.py:12)\n"
        assert not any(finding.culprits for finding in judged(tmp_path, {"notes.txt": text}).findings)
