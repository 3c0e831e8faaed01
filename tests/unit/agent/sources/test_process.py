"""What the kernel tells of real processes: running, asleep, stopped, stuck."""

import os
import signal
from pathlib import Path

import pytest

from agent.deadline import ThreadPool
from agent.errors import Gone
from agent.proc.oom_counts import oom_kills
from agent.proc.procfs import ProcFs, parse_stat
from agent.sources.look_context import LookContext
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


def test_process_that_reads_a_pipe() -> None:
    """The call names its descriptor, and that what it is."""
    with running(READY + "sys.stdin.buffer.raw.read(1)\n", stdin=-1) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.syscall is not None and p.syscall.name == "read")
    assert found.syscall is not None
    assert found.syscall.fd == 0
    assert found.syscall.target is not None
    assert found.syscall.target.startswith("pipe:[")
    assert found.syscall.file_system is None


def test_process_that_reads_a_file_tells_its_file_system(tmp_path: Path) -> None:
    """A read that hangs is explained by what lies below."""
    fifo = tmp_path / "input"
    os.mkfifo(fifo)
    opened = os.open(fifo, os.O_RDWR)
    try:
        with running(READY + f"open({str(fifo)!r}, 'rb', buffering=0).read(1)\n") as process:
            found = until(lambda: process_of(process.pid), lambda p: p.syscall is not None and p.syscall.name == "read")
    finally:
        os.close(opened)
    assert found.syscall is not None
    assert found.syscall.target == str(fifo)
    assert found.syscall.file_system


@pytest.mark.parametrize("relative", [False, True])
def test_process_that_opens_a_file_tells_its_path(tmp_path: Path, relative: bool) -> None:
    """As on a dead mount: there is no descriptor yet."""
    os.mkfifo(tmp_path / "config")
    path = "config" if relative else str(tmp_path / "config")
    with running(READY + f"open({path!r})\n", cwd=tmp_path) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.syscall is not None and p.syscall.name == "openat")
    assert found.syscall is not None
    assert (found.syscall.fd, found.syscall.target) == (None, str(tmp_path / "config"))
    assert found.syscall.file_system


def test_running_process_is_in_no_call() -> None:
    """Then the kernel says `running`."""
    with running(READY + "while True: pass\n") as process:
        found = until(lambda: process_of(process.pid), lambda p: p.syscall is not None and p.syscall.name == "running")
    assert found.state == "R"


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
    import sys

    command = (sys.executable, "-c", UNINTERRUPTIBLE, str(tmp_path / "fifo"))
    with running(command=command) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.state == "D")
        assert found.command == ""
        assert found.syscall is not None
        assert found.syscall.name in ("vfork", "clone", "clone3")


def test_secrets_of_a_command_line_are_hidden() -> None:
    """Anybody may see a snapshot who may ask for one."""
    import sys

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
        (9999, "x86_64", "syscall_9999", None),
        (0, "riscv64", "syscall_0", None),
    ],
)
def test_names_of_system_calls(number: int, machine: str, name: str, argument: int | None) -> None:
    """Each machine numbers them its own way."""
    assert syscall_name(number, machine) == name
    assert fd_argument(name) == argument


def tree_with_cgroup(tmp_path: Path, line: str) -> ProcFs:
    """A process in a control group."""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(line)
    return ProcFs(tmp_path / "proc")


def test_oom_kills_of_both_versions(tmp_path: Path) -> None:
    """The kernel counts them per control group."""
    new = tmp_path / "cgroup" / "job_12"
    new.mkdir(parents=True)
    (new / "memory.events").write_text("low 0\nhigh 3\nmax 2\noom 1\noom_kill 4\n")
    assert oom_kills(tree_with_cgroup(tmp_path, "0::/job_12\n"), 7, tmp_path / "cgroup") == 4


def test_oom_kills_of_version_1(tmp_path: Path) -> None:
    """There the memory controller has a tree of its own."""
    old = tmp_path / "cgroup" / "memory" / "slurm"
    old.mkdir(parents=True)
    (old / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert oom_kills(tree_with_cgroup(tmp_path, "9:cpu:/x\n4:memory:/slurm\n"), 7, tmp_path / "cgroup") == 2


@pytest.mark.parametrize("line", ["", "0::/../../etc\n", "0::/nowhere\n", "garbage\n"])
def test_oom_kills_that_nobody_counts(tmp_path: Path, line: str) -> None:
    """Not known is not none."""
    assert oom_kills(tree_with_cgroup(tmp_path, line), 7, tmp_path / "cgroup") is None


def test_scene_knows_the_mounts() -> None:
    """Each file system by the number that fdinfo gives."""
    mounts = LookContext(ProcFs(), "here").mounts(os.getpid())
    assert mounts.type_of_path("/proc/self/stat") == "proc"
    assert mounts.type_of_path("/nowhere/at/all") == mounts.type_of_path("/")
    assert mounts.type_of_mount(-1) is None


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
