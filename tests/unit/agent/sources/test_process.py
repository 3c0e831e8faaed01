"""What the kernel tells of real processes: running, asleep, stopped, stuck."""

import os
import signal
import sys
from pathlib import Path

import pytest

from agent.deadline import ThreadPool
from agent.errors import Gone
from agent.proc.procfs import parse_stat
from agent.sources.process import ProcessSource
from agent.tools.syscall_names import fd_argument, syscall_name
from shared.wire.snapshot import Process
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.proc_trees import stat_line
from tests.build.processes.processes import READY, SLEEP, running, until

pytestmark = pytest.mark.ptrace


def process_of(pid: int) -> Process:
    """Look at a process."""
    found = ask_source(ProcessSource(ThreadPool()), rank_of(pid))
    assert isinstance(found, Process)
    return found


def test_sleeping_process() -> None:
    """Asleep in a system call that has no descriptor."""
    with running() as process:
        found = until(
            lambda: process_of(process.pid), lambda p: p.syscall is not None and p.syscall.name == "clock_nanosleep"
        )
    assert found.syscall is not None
    assert (found.state, found.syscall.fd) == ("S", None)
    assert found.wchan == "hrtimer_nanosleep"
    assert (found.pid, found.parent_pid, found.uid) == (process.pid, os.getpid(), os.geteuid())
    assert "python" in found.command
    assert found.threads == 1
    assert found.rss_bytes is not None
    assert found.rss_bytes > 1_000_000
    assert found.tracer_pid is None
    assert found.before is not None
    assert found.before.main_switches is not None


@pytest.mark.parametrize(("seconds", "least"), [(600, 500.0), (86_400, 86_000.0)])
def test_sleep_tells_when_it_ends(seconds: int, least: float) -> None:
    """A back-off and a day's sleep look alike but for that."""
    with running(READY + f"time.sleep({seconds})\n") as process:
        call = until(lambda: process_of(process.pid).syscall, lambda call: call is not None and "sleep" in call.name)
    assert call is not None and call.ends_in_seconds is not None
    assert least < call.ends_in_seconds <= seconds


@pytest.mark.parametrize(
    ("does", "call", "fd", "target"),
    [
        ("sys.stdin.buffer.raw.read(1)", "read", 0, "pipe:["),
        ("open('input', 'rb', buffering=0).read(1)", "read", 3, "{folder}/input"),
        ("open('config')", "openat", None, "{folder}/config"),
        ("open(os.path.abspath('config'))", "openat", None, "{folder}/config"),
        ("[None for _ in iter(int, 1)]", "running", None, ""),
    ],
)
def test_system_call_tells_what_it_works_on(tmp_path: Path, does: str, call: str, fd: int | None, target: str) -> None:
    """Its descriptor and what that is; of an open that hangs, as on a dead mount, the path; and the file system."""
    for name in ("input", "config"):
        os.mkfifo(tmp_path / name)
    opened = os.open(tmp_path / "input", os.O_RDWR)
    try:
        with running(READY + does + "\n", stdin=-1, cwd=tmp_path) as process:
            found = until(
                lambda: process_of(process.pid).syscall,
                lambda it: it is not None and (it.name, it.fd) == (call, fd),
            )
    finally:
        os.close(opened)
    assert found is not None
    assert (found.target or "").startswith(target.format(folder=tmp_path))
    assert bool(found.file_system) is target.startswith("{folder}")


def test_stopped_process() -> None:
    """Looked at without waking it."""
    with running() as process:
        os.kill(process.pid, signal.SIGSTOP)
        found = until(lambda: process_of(process.pid), lambda p: p.state == "T")
        assert found.state == "T"
        assert process_of(process.pid).state == "T"


UNINTERRUPTIBLE = f"""
import os, sys
os.mkfifo(sys.argv[1])
{READY}
os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, sys.argv[1], os.O_RDONLY, 0)])
"""
"""Waits for its child, which opens a pipe before it executes anything: the kernel lets it do nothing else."""


def test_process_in_uninterruptible_sleep(tmp_path: Path) -> None:
    """Its memory is not touched, not even for its command line."""
    command = (sys.executable, "-c", UNINTERRUPTIBLE, str(tmp_path / "fifo"))
    with running(command=command) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.state == "D")
        assert found.command == ""
        assert found.syscall is not None
        assert found.syscall.name in ("vfork", "clone", "clone3")


def test_secrets_of_a_command_line_are_hidden() -> None:
    """Anybody may see a snapshot who may ask for one."""
    with running(command=(sys.executable, "-c", SLEEP, "--api-key", "0123abcd", "x" * 2000)) as process:
        found = process_of(process.pid)
    assert "0123abcd" not in found.command
    assert len(found.command) <= 500


def test_process_that_is_gone() -> None:
    """It is told as gone."""
    with running() as process:
        rank = rank_of(process.pid)
    with pytest.raises(Gone):
        ask_source(ProcessSource(ThreadPool()), rank)


def test_name_with_spaces_and_brackets() -> None:
    """Users choose it."""
    stat = parse_stat(stat_line(7, 1, "a) R 1 (b c", "S", 100).encode())
    assert (stat.name, stat.state, stat.parent_pid) == ("a) R 1 (b c", "S", 1)


@pytest.mark.parametrize("data", [b"", b"7", b"7 (x) S", b"7 (x) S " + b"a " * 60, b"\xff" * 100])
def test_stat_line_that_makes_no_sense(data: bytes) -> None:
    """A process that ends while it is read leaves half a line."""
    with pytest.raises(Gone):
        parse_stat(data)


@pytest.mark.parametrize(
    ("number", "machine", "name", "argument"),
    [
        (0, "x86_64", "read", 0),
        (63, "aarch64", "read", 0),
        (202, "x86_64", "futex", None),
        (98, "aarch64", "futex", None),
        (40, "x86_64", "sendfile", 1),
        (243, "x86_64", "mq_timedreceive", 0),
        (183, "aarch64", "mq_timedreceive", 0),
        (9999, "x86_64", "syscall_9999", None),
        (0, "riscv64", "syscall_0", None),
    ],
)
def test_names_of_system_calls(number: int, machine: str, name: str, argument: int | None) -> None:
    """Each machine numbers them its own way."""
    assert syscall_name(number, machine) == name
    assert fd_argument(name) == argument


NAMED_THREADS = """
import ctypes, threading, time
def work():
    ctypes.CDLL(None).prctl(15, b"gloo_tcp_loop", 0, 0, 0)
    time.sleep(600)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


def test_threads_of_which_each_process_group_has_one_are_counted() -> None:
    """Two of Gloo's event loops are two process groups; a thread of another name is none."""
    with running(NAMED_THREADS + SLEEP) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.group_threads.get("gloo_tcp_loop") == 2)
    assert found.group_threads == {"gloo_tcp_loop": 2}
