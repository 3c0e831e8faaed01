"""What real processes wait for, and who holds the other end: read without a change to any of them."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.process import read_process, with_arguments
from agent.sources.stacks import StacksSource
from agent.tools.run_bounded import find_program
from shared.wire.fds import OtherEnd
from shared.wire.snapshot import Child, Identity
from shared.wire.stacks import Stacks
from tests.build.processes.looking import PLAIN, rank_of
from tests.build.processes.processes import READY, running, until

pytestmark = pytest.mark.ptrace

IMPORTS = "import os, select, signal, socket, subprocess, sys, time\n"


def awaited(pid: int) -> tuple[OtherEnd, ...]:
    """Read what a process waits for."""
    context = LookContext(ProcFs(), "here")
    return with_arguments(read_process(context, pid), context, ThreadPool(), Deadline(5.0)).awaits


@contextmanager
def waiting(program: str, *, where: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it sleeps in a kernel function of such a name."""
    with running(IMPORTS + program, **options) as process:
        until(lambda: ProcFs().known_text(process.pid, "wchan"), lambda wchan: where in wchan)
        yield process


def test_a_connection_and_what_its_other_end_has_not_read() -> None:
    """The look reads nothing of that, and does not wake who waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"near = socket.create_connection(('127.0.0.1', {port})); near.sendall(b'x' * 10)\n"
        with waiting(f"{program}{READY}near.recv(1)\n", where="wait_woken") as process:
            far, _ = server.accept()
            before = ProcFs().fields(process.pid, "status")["voluntary_ctxt_switches"]
            (end,), (again,) = awaited(process.pid), awaited(process.pid)
            assert ProcFs().fields(process.pid, "status")["voluntary_ctxt_switches"] == before
            assert (end.kind, end.name, end.unread_bytes) == ("socket", f"127.0.0.1:{port}", 10)
            assert end.quiet_seconds is not None and 0.0 <= end.quiet_seconds <= (again.quiet_seconds or 0.0) < 60.0
            assert end == again.model_copy(update={"quiet_seconds": end.quiet_seconds})
            assert [holder.pid for holder in end.holders] == [os.getpid()]
            with far:
                assert far.recv(100) == b"x" * 10


@pytest.mark.parametrize(
    ("wait", "where"),
    [
        ("near.recv(1)", "unix_stream"),
        ("p = select.poll(); p.register(near, 1); p.register(pair[0], 1); p.poll()", "poll"),
        ("select.select([near, pair[0]], [], [])", "poll"),
        ("e = select.epoll(); e.register(near, 1); e.register(pair[0], 1); e.poll()", "epoll_wait"),
    ],
)
def test_the_one_of_several_descriptors_that_leads_out(wait: str, where: str, tmp_path: Path) -> None:
    """A pair by which a process wakes itself leads to nobody. A short stop, as native stacks need, changes nothing."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        program = f"near = socket.socket(socket.AF_UNIX); near.connect({str(path)!r}); pair = socket.socketpair()\n"
        with waiting(f"{program}{READY}{wait}\n", where=where) as process:
            far, _ = server.accept()
            with far:
                (end,) = awaited(process.pid)
                for each in (signal.SIGSTOP, signal.SIGCONT):
                    process.send_signal(each)
                    stopped = each is signal.SIGSTOP
                    until(lambda: ProcFs().stat(process.pid).state == "T", lambda is_so, then=stopped: is_so is then)
                until(lambda: ProcFs().known_text(process.pid, "wchan"), lambda wchan: where in wchan)
                assert awaited(process.pid) == (end,)
    assert (end.kind, end.name, [each.pid for each in end.holders]) == ("socket", str(path), [os.getpid()])


def test_a_pipe_by_whether_another_process_holds_it() -> None:
    """Who alone holds both of its ends can hear from nobody else."""
    with waiting(f"a, b = os.pipe()\n{READY}os.read(a, 1)\n", where="pipe_read") as process:
        (end,) = awaited(process.pid)
        assert (end.kind, end.own, end.holders) == ("pipe", True, ())
    with waiting(f"{READY}sys.stdin.read()\n", where="pipe_read", stdin=subprocess.PIPE) as process:
        (end,) = awaited(process.pid)
        assert (end.kind, end.own, [each.pid for each in end.holders]) == ("pipe", False, [os.getpid()])


def test_a_fifo_that_nobody_opens(tmp_path: Path) -> None:
    """It is told by its path."""
    os.mkfifo(tmp_path / "feed")
    with waiting(f"{READY}open({str(tmp_path / 'feed')!r})\n", where="wait_for_partner") as process:
        (end,) = awaited(process.pid)
    assert (end.kind, end.name, end.holders) == ("fifo", str(tmp_path / "feed"), ())


def test_a_child_and_a_terminal() -> None:
    """The child that the call names; the terminal at which somebody has to type."""
    program = f"child = subprocess.Popen(['sleep', '600'])\n{READY}child.wait()\n"
    with waiting(program, where="do_wait") as process:
        (end,) = awaited(process.pid)
        assert end.kind == "child" and [each.name for each in end.holders] == ["sleep"]
    main, terminal = os.openpty()
    try:
        with waiting(f"{READY}sys.stdin.readline()\n", where="wait_woken", stdin=terminal) as process:
            (end,) = awaited(process.pid)
            assert (end.kind, end.name) == ("terminal", os.ttyname(terminal))
    finally:
        os.close(main)
        os.close(terminal)


SERVICE = """
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
client, _ = server.accept()
def score():
    time.sleep(600)
score()
"""


def followed(rank: Rank, ranks: dict[int, Identity]) -> tuple[Child, ...]:
    """Look at those to whom the wait of a rank leads."""
    source = StacksSource(find_program("py-spy"), ThreadPool())
    found = source.look(rank, LookContext(ProcFs(), "here", ranks), PLAIN, Deadline(20.0))["followed"]
    assert isinstance(found, tuple)
    return found


def test_whoever_is_waited_for_is_looked_at_and_known_by_its_job() -> None:
    """But for ranks of the same job, which are looked at anyway."""
    with running(IMPORTS + SERVICE, wait=False) as service:
        assert service.stdout is not None
        port = int(service.stdout.readline())
        client = f"near = socket.create_connection(('127.0.0.1', {port}))\n{READY}near.recv(1)\n"
        with waiting(client, where="wait_woken") as process:
            until(lambda: ProcFs().known_text(service.pid, "wchan"), lambda wchan: "nanosleep" in wchan)
            rank, other = rank_of(process.pid), Identity(job="rollout", rank=3, pid=service.pid)
            (found,) = followed(rank, {service.pid: other})
            assert (found.process.pid, found.identity) == (service.pid, other)
            assert isinstance(found.stacks, Stacks) and found.stacks.main is not None
            assert found.stacks.stack(found.stacks.main)[-1].function == "score"
            assert followed(rank, {service.pid: rank.identity}) == ()


def test_an_actor_of_rays_is_called_by_its_class_and_method(tmp_path: Path) -> None:
    """The kernel's name of a process has 15 bytes of that."""
    title = "ray::RewardModel.score"
    (tmp_path / title).symlink_to("/bin/sleep")
    ours, theirs = os.pipe()
    with (
        subprocess.Popen([title, "600"], executable=tmp_path / title, pass_fds=[theirs]) as actor,
        waiting(f"{READY}os.read(0, 1)\n", where="pipe_read", stdin=ours) as process,
    ):
        os.close(theirs)
        (end,) = awaited(process.pid)
        assert [(holder.pid, holder.name) for holder in end.holders] == [(actor.pid, title)]
        actor.kill()
    os.close(ours)
