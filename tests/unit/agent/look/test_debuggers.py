"""Closer looks at real processes: what they show, and whom they refuse."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.tools.gdb import backtrace_with_gdb
from agent.tools.stop_guard import trace_process
from agent.tools.strace import parse_strace, trace_syscalls
from shared.errors import NotFound
from shared.missing import Reason
from shared.wire.debug_output import DeepLook, How
from tests.build.processes.processes import HANGING, READY, SLEEP, rank_environment, running, until

pytestmark = pytest.mark.ptrace


@pytest.fixture(scope="module")
def hanging() -> Iterator[int]:
    """A rank whose main thread waits for a pipe, and another one for a clock."""
    with running(HANGING, env=rank_environment(0, port=29441)) as process:
        until(lambda: ProcFs().tids(process.pid), lambda tids: len(tids) == 2)
        until(lambda: ProcFs().text(process.pid, "wchan"), lambda wchan: "pipe" in wchan)
        yield process.pid


@pytest.fixture(scope="module")
def agent() -> Agent:
    """An agent that may run debuggers."""
    return Agent(AgentSettings(host_name="here", debuggers=True))


def look(agent: Agent, pid: int, how: How) -> DeepLook:
    """Look closely, and hold that the process is as it was before."""
    taken = agent.deep(pid, how, 0.3)
    assert_free(pid)
    assert (taken.rank, taken.host, taken.pid) == (0, "here", pid)
    return taken


def assert_free(pid: int) -> None:
    """The process is neither stopped nor traced."""
    status = ProcFs().fields(pid, "status")
    assert (status["State"][0] in "SR", status["TracerPid"]) == (True, "0")


@pytest.mark.needs("gdb", "strace")
def test_every_thread_is_shown(agent: Agent, hanging: int) -> None:
    """By gdb native frames, outermost first, of threads known by their kernel ids; by pystack both kinds in one stack.

    By strace which thread waits in which call, with the file behind the descriptor.
    """
    native, python, calls = (look(agent, hanging, how) for how in (How.GDB, How.PYSTACK, How.SYSCALLS))
    assert native.stacks is not None, native.missing
    assert {thread.tid for thread in native.stacks.threads} == set(ProcFs().tids(hanging))
    assert native.stacks.main is not None
    assert "read" in native.stacks.stack(native.stacks.main)[-1].function
    assert all(frame.native for frame in native.stacks.frames)
    assert python.stacks is not None, python.missing
    assert "refresh_cache" in {frame.function for frame in python.stacks.frames if not frame.native}
    assert python.stacks.native
    assert calls.syscalls is not None, calls.missing
    waiting = {each.tid: each.call for each in calls.syscalls.waiting}
    assert waiting[hanging].startswith("read(") and "pipe:[" in waiting[hanging]
    assert calls.syscalls.counts["read"] == 1


WITH_WORKER = f"""
import os, time
def load():
    time.sleep(600)
if os.fork() == 0:
    load()
{SLEEP}
"""


def test_a_child_of_the_rank(agent: Agent) -> None:
    """A DataLoader worker may be the one that hangs; a process that is no child of it is left alone."""
    with running(WITH_WORKER, env=rank_environment(0, port=29447)) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (child,) = until(lambda: [int(word) for word in children.read_text().split()], lambda pids: len(pids) == 1)
        taken = agent.deep(process.pid, How.PYSTACK, 0.3, child)
        assert_free(child)
        assert taken.stacks is not None, taken.missing
        assert taken.pid == child
        assert any(frame.function == "load" for frame in taken.stacks.frames)
        stranger = agent.deep(process.pid, How.PYSTACK, 0.3, os.getpid())
        assert stranger.missing is not None
        assert stranger.missing.reason is Reason.GONE


@pytest.mark.needs("strace")
def test_a_busy_process_shows_what_it_does(agent: Agent) -> None:
    """Calls are counted, and what is written stays out of the answer."""
    program = f"{READY}\nto = os.open('/dev/null', os.O_WRONLY)\nwhile True: os.write(to, b'secret'); time.sleep(0.005)"
    with running(program, env=rank_environment(0, port=29442)) as process:
        taken = look(agent, process.pid, How.SYSCALLS)
    assert taken.syscalls is not None, taken.missing
    assert taken.syscalls.counts["write"] > 3
    assert taken.syscalls.waiting == ()
    assert "secret" not in "".join(taken.syscalls.lines)


def test_agents_run_no_debuggers_by_themselves(hanging: int) -> None:
    """It must be allowed; and only ranks are looked at."""
    careful = Agent(AgentSettings(host_name="here"))
    refused = careful.deep(hanging, How.GDB, 1.0).missing
    assert refused is not None
    assert (refused.reason, "UNHANG_AGENT_DEBUGGERS" in refused.detail) == (Reason.NOT_ENABLED, True)
    with pytest.raises(NotFound):
        careful.deep(os.getpid(), How.GDB, 1.0)
    with pytest.raises(Unavailable, match="apt-get install"):  # a program that is not there
        backtrace_with_gdb(ProcFs(), hanging, None, Deadline(5.0))
    with pytest.raises(Unavailable, match="apt-get install"):
        trace_syscalls(ProcFs(), hanging, None, seconds=1.0, deadline=Deadline(5.0))


@pytest.mark.needs("gdb", "strace")
def test_who_is_stopped_is_left_alone(agent: Agent) -> None:
    """Attaching would wait, or wake it."""
    with running(SLEEP, env=rank_environment(0, port=29443)) as process:
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "T")
        for how in How:
            missing = agent.deep(process.pid, how, 0.3).missing
            assert missing is not None
            assert missing.reason is Reason.REFUSED
        assert ProcFs().stat(process.pid).state == "T"


@pytest.mark.needs("strace")
def test_second_tracer_is_told_of_the_first(hanging: int) -> None:
    """A process has one tracer at a time."""
    with subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(hanging)], stderr=subprocess.DEVNULL) as first:
        try:
            until(lambda: ProcFs().fields(hanging, "status")["TracerPid"], lambda tracer: tracer != "0")
            with pytest.raises(Unavailable, match=f"already traced by process {first.pid}"):
                trace_process(ProcFs(), hanging, ["false"], Deadline(5.0), end_with=signal.SIGINT)
        finally:
            first.send_signal(signal.SIGINT)
            first.wait(60)
    assert_free(hanging)


def test_strace_lines() -> None:
    """Unfinished, resumed and hostile lines."""
    lines = [
        "4787  10:14:50.865293 clock_nanosleep(CLOCK_MONOTONIC, 0,  <unfinished ...>",
        "[pid  4788] 10:14:50.865343 futex(0x7fe0, FUTEX_WAIT <unfinished ...>",
        '4784  10:14:50.865349 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3 <0.000012>',
        "4788  10:14:51.000000 <... futex resumed>) = 0 <0.13>",
        "4784  10:14:51.000001 read(3</srv/x>,  <detached ...>",
        "strace: Process 4784 detached",
        "x" * 10_000,
        "99999999999999 10:14:50.1 read(",
    ]
    seen = parse_strace(lines, pid=4784, seconds=1.0)
    assert seen.counts == {"clock_nanosleep": 1, "futex": 1, "openat": 1, "read": 1}
    assert [each.tid for each in seen.waiting] == [4787]
    assert len(seen.lines) == 5
