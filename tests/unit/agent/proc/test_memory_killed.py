"""A rank that the kernel kills in its own memory control group is told as killed for want of memory."""

import os
import signal
import time
from pathlib import Path

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.look.node import Node
from agent.proc.oom_counts import oom_kills
from agent.proc.procfs import ProcFs
from agent.sources.kernel_log import KernelLog
from shared.wire.kernel_events import KernelEventKind
from tests.build.processes.memory_groups import JOIN, memory_group
from tests.build.processes.processes import HERE, READY, rank_environment, running

pytestmark = pytest.mark.root

MIB = 1024 * 1024
TAKE = f"sys.stdin.readline()\nkept = b'x' * {256 * MIB}\n"
PORT = 29419
NUMBERS_ARE_THE_KERNELS = Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC
"""PROC_PID_INIT_INO: in a container with process numbers of its own the kernel's log has the host's."""


@pytest.mark.parametrize(("starved", "reaped"), [(True, False), (True, True), (False, True)])
def test_rank_killed_for_want_of_memory(starved: bool, reaped: bool) -> None:
    """By its group's counter, whether its launcher has waited for it or not; and the kernel's log names it.

    One that was killed by hand in such a group was not.
    """
    begun = time.time() - 60  # another process may have had the same number long ago
    node, log = Node(ProcFs(), "here", ThreadPool()), KernelLog(ProcFs())
    with memory_group(64 * MIB) as group:
        program = JOIN.format(group=str(group)) + READY + TAKE
        with running(program, env=rank_environment(1, port=PORT), stdin=-1) as rank:
            mine = [r.stat.pid for r in node.find(Deadline(10)).ranks if r.identity.job == f"{HERE}:{PORT}"]
            assert (mine, oom_kills(ProcFs(), rank.pid)) == ([rank.pid], 0)
            assert rank.stdin is not None
            if starved:
                rank.stdin.write("\n")
                rank.stdin.flush()
            else:
                rank.kill()
            ended = os.WEXITED | os.WNOWAIT
            os.waitid(os.P_PID, rank.pid, ended)
            if reaped:
                assert rank.wait(30) == -signal.SIGKILL
            exited = next((each for each in node.find(Deadline(10)).exited if each.pid == rank.pid), None)
    assert exited is not None and exited.identity is not None
    assert (exited.identity.rank, exited.oom_killed) == (1, starved)
    assert exited.signal in ((None, signal.SIGKILL) if reaped else (signal.SIGKILL,))
    told = [event for event in log.read(Deadline(10)).events if (event.at or 0.0) >= begun]
    log.close()
    killed = [event.pid for event in told if event.kind is KernelEventKind.OOM_KILL]
    if starved:
        assert killed.count(rank.pid) == 1 if NUMBERS_ARE_THE_KERNELS else killed
