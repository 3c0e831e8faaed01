"""Tracers at real processes: whenever they end, and whoever ends them, the process runs on."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.gdb import backtrace_with_gdb, gdb_command
from agent.tools.stop_guard import trace_process
from shared.missing import Reason
from tests.build.processes.processes import HANGING, READY, running, until

pytestmark = pytest.mark.ptrace

Target = subprocess.Popen[str]

GDB = Path("gdb")

WITH_JIT = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* As in LLVM: https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html */
void __attribute__((noinline)) __jit_debug_register_code(void) { __asm__ volatile(""); }
struct { unsigned version, action; void *relevant, *first; } __jit_debug_descriptor = {1, 0, 0, 0};

static void *wait_forever(void *nothing) { for (;;) pause(); return nothing; }

int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, wait_forever, 0);
    puts("ready");
    fflush(stdout);
    wait_forever(0);
}
"""


@pytest.fixture
def target() -> Iterator[Target]:
    """Such a process for one test alone."""
    with running(HANGING) as process:
        until(lambda: ProcFs().tids(process.pid), lambda tids: len(tids) == 2)
        yield process


@pytest.fixture
def with_jit(tmp_path: Path) -> Iterator[Target]:
    """A program whose own executable, not a library, compiles at run time and tells debuggers."""
    source = tmp_path / "jit.c"
    source.write_text(WITH_JIT)
    subprocess.run(["cc", "-pthread", "-o", tmp_path / "jit", source], check=True, timeout=60)
    with running(command=[str(tmp_path / "jit")]) as process:
        yield process


def goes_on(process: Target) -> None:
    """The process is as it was: not ended, stopped or traced."""

    def state() -> tuple[str, str]:
        ended = process.poll()
        assert ended is None, f"the process ended with status {ended}"
        status = ProcFs().fields(process.pid, "status")
        return status["State"][0], status["TracerPid"]

    until(state, lambda seen: seen == ("S", "0"))


def slow_gdb(pid: int) -> list[str]:
    """Return the command of a gdb that stays attached."""
    return gdb_command(GDB, ["-p", str(pid)], then=["shell sleep 60"])


@contextmanager
def on_attach(process: Target, act: Callable[[int], None]) -> Iterator[None]:
    """Act on whoever attaches to the process first, by its id, while the block runs.

    For a moment as it is attached to, the kernel calls its parent its tracer: that is us, whom `act` must not stop.
    """

    def wait() -> None:
        end = time.monotonic() + 30.0
        with open(f"/proc/{process.pid}/status", "rb") as status:
            while time.monotonic() < end:
                tracer = re.search(rb"TracerPid:\t([1-9]\d*)", os.pread(status.fileno(), 4096, 0))
                if tracer is not None and int(tracer[1]) != os.getpid():
                    act(int(tracer[1]))
                    acted.set()
                    return

    acted = threading.Event()
    watcher = threading.Thread(target=wait)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()
    assert acted.is_set()


def test_who_is_blocked_in_the_kernel_is_left_alone() -> None:
    """The parent of a vfork is in state D until the child goes on: it is not even tried."""
    program = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
{READY}
if libc.vfork() == 0:
    libc.pause()
"""
    with running(program) as process:
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "D")
        with pytest.raises(Unavailable) as refused:
            trace_process(ProcFs(), process.pid, ["false"], Deadline(5.0), end_with=signal.SIGKILL)
        assert refused.value.reason is Reason.REFUSED


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3, 0.6])
def test_a_debugger_that_is_late_leaves_nobody_stopped(target: Target, seconds: float) -> None:
    """At the deadline it is killed; the process runs on."""
    began = time.monotonic()
    output = trace_process(ProcFs(), target.pid, slow_gdb(target.pid), Deadline(seconds), end_with=signal.SIGKILL)
    assert output.status is None
    assert time.monotonic() - began < 30.0
    goes_on(target)


@pytest.mark.needs("gdb")
def test_a_killed_debugger_leaves_nobody_stopped(target: Target) -> None:
    """As Ctrl-C on `unhang look` does it: the debugger's whole group gets SIGKILL while it holds the process."""
    with on_attach(target, lambda gdb: os.killpg(os.getpgid(gdb), signal.SIGKILL)):
        output = trace_process(ProcFs(), target.pid, slow_gdb(target.pid), Deadline(30.0), end_with=signal.SIGKILL)
    assert output.status == -signal.SIGKILL
    goes_on(target)


@pytest.mark.needs("gdb")
def test_a_debugger_that_is_late_as_it_attaches_harms_nobody(target: Target) -> None:
    """Asked to end by SIGTERM, gdb goes on after the pause by sending its process SIGINT."""
    limit = Deadline(2.0)

    def pause(gdb: int) -> None:
        os.kill(gdb, signal.SIGSTOP)
        time.sleep(limit.left() + 0.3)
        with suppress(ProcessLookupError):
            os.kill(gdb, signal.SIGCONT)

    with on_attach(target, pause), pytest.raises(Unavailable, match="had not finished after"):
        backtrace_with_gdb(ProcFs(), target.pid, GDB, limit)
    goes_on(target)


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_debugger_does_not_hear_who_ends_the_agent(target: Target, how: signal.Signals) -> None:
    """`systemctl stop` sends SIGTERM to all in the unit, gdb too, which may be attaching: it does its work."""

    def end_it(gdb: int) -> None:
        os.kill(gdb, signal.SIGSTOP)
        os.killpg(os.getpgid(gdb), how)
        os.kill(gdb, signal.SIGCONT)

    with on_attach(target, end_it):
        stacks = backtrace_with_gdb(ProcFs(), target.pid, GDB, Deadline(30.0))
    assert len(stacks.threads) == 2
    goes_on(target)


@pytest.mark.needs("gdb", "cc")
@pytest.mark.parametrize("jit", [False, True])
def test_gdb_writes_nothing_into_the_process(target: Target, with_jit: Target, *, jit: bool) -> None:
    """Killed while a breakpoint of its own is in the process, gdb would leave it there, for SIGTRAP to come."""
    process = with_jit if jit else target
    command = gdb_command(GDB, ["-iex", "set debug target 1", "-p", str(process.pid)])
    output = trace_process(ProcFs(), process.pid, command, Deadline(60.0), end_with=signal.SIGKILL)
    assert output.status == 0
    done = set(re.findall(r"-> native->(\w+)", output.stderr.decode(errors="replace")))
    assert {"fetch_registers", "detach"} <= done  # the last of all: nothing was cut off
    assert done.isdisjoint({"insert_breakpoint", "insert_hw_breakpoint", "store_registers", "resume", "kill"})
    goes_on(process)


@pytest.mark.needs("gdb", "cc")
def test_a_debugger_that_fails_leaves_nobody_stopped(with_jit: Target) -> None:
    """gdb ends with an error, and detaches with SIGSTOP, where it cannot place a breakpoint of its own."""
    fails = ["-iex", "maintenance set target-non-stop on", "-iex", "set may-insert-breakpoints off"]
    command = gdb_command(GDB, [*fails, "-p", str(with_jit.pid)])
    output = trace_process(ProcFs(), with_jit.pid, command, Deadline(15.0), end_with=signal.SIGKILL)
    assert b"Cannot insert breakpoint" in output.stderr
    goes_on(with_jit)
