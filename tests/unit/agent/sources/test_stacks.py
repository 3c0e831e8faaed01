"""Stacks of real processes, and what becomes of a py-spy that fails, hangs or lies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.source import LookDepth
from agent.sources.stacks import StacksSource
from agent.tools.pyspy import dump_stacks, permission_advice
from agent.tools.run_bounded import find_program
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child
from shared.wire.stacks import Stacks
from tests.build.processes.looking import PLAIN, ask_source, rank_of
from tests.build.processes.processes import READY, SLEEP, is_alive, running, until
from tests.unit.agent.sources.test_process import UNINTERRUPTIBLE

pytestmark = pytest.mark.ptrace

HERE = "def wait_here():\n    time.sleep(600)\n"
WAITS = "import time\n" + HERE + READY + "wait_here()\n"


def source(program: Path | None = None) -> StacksSource:
    """Return the source with a certain py-spy, by default the real one."""
    return StacksSource(program or find_program("py-spy"), ThreadPool())


@contextmanager
def asleep() -> Iterator[subprocess.Popen[str]]:
    """Run a process that is where it stays: the word `ready` comes just before."""
    with running(WAITS) as process:
        until(lambda: ProcFs().text(process.pid, "wchan"), lambda wchan: "nanosleep" in wchan)
        yield process


def functions(stacks: Stacks) -> list[str]:
    """Return the main thread's functions, outermost first."""
    assert stacks.main is not None
    return [frame.function for frame in stacks.stack(stacks.main)]


def test_stacks_of_a_sleeping_process() -> None:
    """Outermost first, and the process sleeps on. C frames too, on request; none where none were asked for."""
    with asleep() as process:
        found = ask_source(source(), rank_of(process.pid))
        assert functions(found) == ["<module>", "wait_here"]
        assert (found.paused, found.native, found.pid) == (False, False, process.pid)
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "S")
        with pytest.raises(Unavailable) as caught:
            ask_source(source(), rank_of(process.pid), LookDepth(stacks="none"))
        assert caught.value.reason is Reason.NOT_ENABLED
        found = ask_source(source(), rank_of(process.pid), LookDepth(stacks="native"), seconds=60)
    assert found.native and "wait_here" in functions(found)
    assert any("nanosleep" in frame.function for frame in found.frames if frame.native)


def test_threads_that_python_does_not_know_are_told_where_all_are_asked_for() -> None:
    """By their names in the kernel; what Python runs is told as without them."""
    begun = "import numpy\nmatrix = numpy.ones((400, 400))\nmatrix @ matrix\n"
    with running(begun + WAITS, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"}) as process:
        asked = StacksSource(find_program("py-spy"), ThreadPool(), fallback=find_program("pystack"))
        few, every = (
            ask_source(asked, rank_of(process.pid), LookDepth("native", every_thread=each), seconds=60)
            for each in (False, True)
        )
    (more,) = every.threads[len(few.threads) :]
    assert functions(every) == functions(few)
    assert more.name == "python" and all(frame.native for frame in every.stack(more))
    assert any("pthread_cond_wait" in frame.function for frame in every.stack(more))


def test_stopped_process_is_never_stopped_by_us(tmp_path: Path) -> None:
    """py-spy is told not to attach, and gets the stacks all the same."""
    log = tmp_path / "arguments"
    spy = script(tmp_path, f'echo "$@" >> {log}\nexec {find_program("py-spy")} "$@"')
    with asleep() as process:
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "T")
        for mode in (PLAIN, LookDepth(stacks="native")):
            found = ask_source(source(spy), rank_of(process.pid), mode)
            assert "wait_here" in functions(found)
            assert (found.paused, found.native) == (False, False)
        assert ProcFs().stat(process.pid).state == "T"
    arguments = log.read_text().splitlines()
    assert len(arguments) == 2
    assert all("--nonblocking" in line and "--native" not in line for line in arguments)


def test_process_in_uninterruptible_sleep(tmp_path: Path) -> None:
    """Attaching to it would wait as long as it does."""
    command = (sys.executable, "-c", UNINTERRUPTIBLE, str(tmp_path / "fifo"))
    with running(command=command) as process:
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "D")
        found = ask_source(source(), rank_of(process.pid))
        assert isinstance(found, Stacks)
        assert not found.paused
        assert functions(found) == ["<module>"]


STUCK_THREAD = f"""
import os, sys, tempfile, threading, time
def start():
    os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, sys.argv[1], os.O_RDONLY, 0)])
os.mkfifo(sys.argv[1])
{HERE}
import ctypes
libc = ctypes.CDLL(None)
class Actions(ctypes.Structure): _fields_ = [('x', ctypes.c_char * 512)]
def stuck():
    actions, pid = Actions(), ctypes.c_int()
    libc.posix_spawn_file_actions_init(ctypes.byref(actions))
    libc.posix_spawn_file_actions_addopen(ctypes.byref(actions), 3, sys.argv[1].encode(), os.O_RDONLY, 0)
    print('ready', flush=True)
    arguments = (ctypes.c_char_p * 2)(b'true', None)
    libc.posix_spawn(ctypes.byref(pid), b'/bin/true', ctypes.byref(actions), None, arguments, None)
threading.Thread(target=stuck, daemon=True).start()
wait_here()
"""


def test_process_with_one_thread_in_uninterruptible_sleep(tmp_path: Path) -> None:
    """The main thread sleeps as others do, but attaching stops all threads."""
    procfs = ProcFs()
    with running(command=(sys.executable, "-c", STUCK_THREAD, str(tmp_path / "fifo"))) as process:
        until(
            lambda: [procfs.stat(process.pid, tid).state for tid in procfs.tids(process.pid)],
            lambda states: "D" in states,
        )
        found = ask_source(source(), rank_of(process.pid))
        assert isinstance(found, Stacks)
        assert not found.paused
        assert "wait_here" in functions(found)


def children_of_look(program: str, count: int) -> tuple[list[int], dict[int, Child]]:
    """Look at a process that starts so many children; return them in order, and what is told of each."""
    with running(program) as process:
        pids = until(lambda: children_of(process.pid), lambda found: len(found) == count)
        until(lambda: "pipe_read" in ProcFs().text(pids[-1], "wchan"), lambda reads: reads or count == 1)
        rank = rank_of(process.pid, children=tuple(pids))
        answer = source().look(rank, LookContext(ProcFs(), "here"), PLAIN, Deadline(10))
    return pids, {child.process.pid: child for child in answer["children"]}  # type: ignore[attr-defined]


def test_children_are_asked_too() -> None:
    """A DataLoader worker may be the one that hangs; of one that runs no Python it is told why it has no stacks."""
    (pid,), told = children_of_look(f"import os, time\n{HERE}if os.fork() == 0:\n    wait_here()\n" + SLEEP, 1)
    assert isinstance(told[pid].stacks, Stacks)
    assert functions(told[pid].stacks)[-1] == "wait_here"
    assert told[pid].process.before is not None and told[pid].process.after is not None
    (pid,), told = children_of_look("import subprocess\nsubprocess.Popen(['sleep', '600'])\n" + SLEEP, 1)
    assert (told[pid].process.name, told[pid].stacks.reason) == ("sleep", Reason.NOT_FOUND)


def test_of_many_children_the_unusual_are_looked_at() -> None:
    """Stopping dozens of idle workers would take seconds; the one that is stuck is among those looked at."""
    program = f"""
import os, time
{HERE}
for number in range(12):
    if os.fork() == 0:
        os.read(os.pipe()[0], 1) if number == 11 else wait_here()
"""
    pids, told = children_of_look(program + SLEEP, 12)
    assert len(told) == 12
    assert isinstance(told[pids[-1]].stacks, Stacks)
    assert [c.stacks.reason for c in told.values() if isinstance(c.stacks, Missing)] == [Reason.REFUSED] * 4


def script(folder: Path, body: str) -> Path:
    """Write a program that stands for py-spy."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("echo 'Error: Permission denied (os error 13)' >&2; exit 1", Reason.NOT_PERMITTED, "CAP_SYS_PTRACE"),
        ("echo 'Error: Failed to suspend process' >&2; echo 'Reason: EPERM: Operation not permitted' >&2; exit 1",
         Reason.NOT_PERMITTED, "CAP_SYS_PTRACE"),
        ("echo 'Error: Failed to find python version from target process' >&2; exit 1", Reason.NOT_FOUND, "Python"),
        ("echo 'Error: No such file or directory (os error 2)' >&2; exit 1", Reason.UNREADABLE, "py-spy failed"),
        ("exit 3", Reason.UNREADABLE, "it printed nothing"),
        ("echo '[{'", Reason.UNREADABLE, "not a py-spy dump"),
        ("exec head -c 17000000 /dev/zero", Reason.UNREADABLE, "larger"),
        ("echo 'Error: No such process (os error 3)' >&2; exit 1", Reason.GONE, "exited during the look"),
    ],
)  # fmt: skip
def test_py_spy_that_fails(
    tmp_path: Path, body: str, reason: Reason, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failure is told with its reason, and with what to do."""
    monkeypatch.setattr("agent.sources.stacks._PLAIN_SECONDS", 30.0)
    with running() as process:
        found = ask_source(source(script(tmp_path, body)), rank_of(process.pid), seconds=60)
    assert isinstance(found, Missing)
    assert found.reason is reason
    assert words in found.detail


def test_py_spy_that_is_not_there(tmp_path: Path) -> None:
    """The answer says how to get it, also where pystack cannot help either."""
    assert find_program("py-spy", tmp_path / "none") is None
    with running(command=("sleep", "600"), wait=False) as process:
        for fallback in (None, find_program("pystack")):
            found = ask_source(StacksSource(None, ThreadPool(), fallback=fallback), rank_of(process.pid))
            assert isinstance(found, Missing)
            assert found.reason is Reason.NOT_FOUND and "pip install py-spy" in found.detail


@pytest.mark.parametrize(
    "complaint", ["", "echo 'Error: Failed to find python version from target process' >&2; exit 1"]
)
def test_pystack_helps_where_py_spy_cannot(tmp_path: Path, complaint: str) -> None:
    """When it is not there, or does not know this Python; without stopping the process."""
    pystack = find_program("pystack")
    assert pystack is not None
    spy = script(tmp_path, complaint) if complaint else None
    with asleep() as process:
        found = ask_source(StacksSource(spy, ThreadPool(), fallback=pystack), rank_of(process.pid))
    assert functions(found) == ["<module>", "wait_here"]
    assert (found.paused, found.pid) == (False, process.pid)


def test_py_spy_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """At the deadline, and nothing of it is left."""
    pids = tmp_path / "pids"
    spy = script(tmp_path, f"sleep 601 & echo $! > {pids}; echo $$ >> {pids}; wait")
    with running() as process:
        begun = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            dump_stacks(ProcFs(), process.pid, spy, native=False, deadline=Deadline(1.0))
        assert time.monotonic() - begun < 30
    assert caught.value.reason is Reason.TIMED_OUT
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: is_alive(pid), lambda alive: not alive)


def test_process_that_a_killed_py_spy_left_stopped_goes_on(tmp_path: Path) -> None:
    """A tracer that dies between its stop and its attach would leave it stopped for ever."""
    with running() as process:
        spy = script(tmp_path, f"kill -STOP {process.pid}; sleep 601")
        with pytest.raises(Unavailable):
            dump_stacks(ProcFs(), process.pid, spy, native=True, deadline=Deadline(1.0))
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "S")


def test_advice_of_yama(tmp_path: Path) -> None:
    """Ubuntu's default lets only parents look."""
    (tmp_path / "ptrace_scope").write_text("1\n")
    with running() as process:
        assert "kernel.yama.ptrace_scope" in permission_advice(ProcFs(), process.pid, tmp_path / "ptrace_scope")
        assert "SYS_PTRACE" in permission_advice(ProcFs(), process.pid, tmp_path / "none")


def test_advice_of_a_debugger() -> None:
    """Two cannot trace one process."""
    program = """
import ctypes, os, time
if os.fork() == 0:
    print('ready', flush=True)
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # let the parent trace us
    os.kill(os.getpid(), 19)
time.sleep(600)
"""
    with running(program) as process:
        (child,) = until(lambda: children_of(process.pid), lambda pids: len(pids) == 1)
        until(lambda: ProcFs().stat(child).state, lambda state: state == "t")
        assert f"already traced by process {process.pid}" in permission_advice(ProcFs(), child)
        found = ask_source(source(), rank_of(child))
        assert isinstance(found, Stacks)
        assert not found.paused
