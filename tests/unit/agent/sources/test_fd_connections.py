"""To whom a rank is connected: real sockets of real processes, on one machine."""

import os
import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.proc.procfs import ProcFs
from agent.proc.sock_diag import parse_answer, unix_peers
from agent.proc.socket_tables import SocketEntry, holds_sockets
from agent.sources.fd_connections import leads_to_store
from agent.sources.fds import FdsSource
from agent.sources.look_context import LookContext
from agent.sources.ras.endpoints import endpoints_of
from agent.sources.recorder.debug_server import DebugServerFinder
from shared.wire.snapshot import Fds, Holder, Socket
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import READY, SLEEP, running, until

pytestmark = pytest.mark.ptrace

CONNECT = "import socket\nkept = socket.create_connection(('127.0.0.1', {port}))\n"


def fds_of(pid: int, **environment: str) -> Fds:
    """Look at what a process holds open."""
    found = ask_source(FdsSource(), rank_of(pid, **environment))
    assert isinstance(found, Fds)
    return found


def tcp_of(pid: int, **environment: str) -> Socket:
    """Return the one TCP socket of a process."""
    (found,) = (s for s in fds_of(pid, **environment).sockets if s.kind.startswith("tcp"))
    return found


def ourselves() -> Holder:
    """Who runs this test."""
    return Holder(pid=os.getpid(), name=Path("/proc/self/comm").read_text().rstrip("\n"))


def test_tables_are_read_for_whoever_holds_a_socket_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read TCP's takes 10 ms, whatever they hold."""
    context, asked = LookContext(ProcFs(), "here"), list[int]()
    sockets = context.sockets
    monkeypatch.setattr(context, "sockets", lambda pid: asked.append(pid) or sockets(pid))
    with running() as without, running("import socket\nkept = socket.socket()\n" + SLEEP) as holding:
        pids = (without.pid, holding.pid)
        assert [holds_sockets(ProcFs(), pid) for pid in pids] == [False, True]
        for pid in pids:
            assert DebugServerFinder().find(rank_of(pid), context, Deadline(5)) is None
            assert endpoints_of([rank_of(pid)], context) == ({}, ())
    assert set(asked) == {holding.pid}


def test_connection_to_the_store_names_who_holds_the_other_end() -> None:
    """The store is at MASTER_ADDR:MASTER_PORT, here ours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with running(CONNECT.format(port=port) + READY + "time.sleep(600)\n") as process:
            accepted = server.accept()[0]
            found = tcp_of(process.pid, MASTER_ADDR="localhost", MASTER_PORT=str(port))
            assert (found.to_store, found.state, found.other_end) == (True, "ESTABLISHED", (ourselves(),))
            assert not tcp_of(process.pid, MASTER_ADDR="localhost", MASTER_PORT="1").to_store
            accepted.close()
            found = until(lambda: tcp_of(process.pid), lambda s: s.state == "CLOSE_WAIT")
            assert found.other_end == ()


def test_bytes_that_nobody_reads_are_counted_on_both_ends() -> None:
    """A peer that does not read fills the buffers: then the sender waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = CONNECT.format(port=port) + "kept.setblocking(False)\n"
        program += "try:\n while True: kept.send(bytes(65536))\nexcept BlockingIOError: pass\n"
        with running(program + READY + "time.sleep(600)\n") as process:
            accepted = server.accept()[0]
            with accepted:
                assert tcp_of(process.pid).unsent_bytes > 0
                mine = next(s for s in fds_of(os.getpid()).sockets if s.fd == accepted.fileno())
                assert mine.unread_bytes > 0
                assert mine.other_end == (Holder(pid=process.pid, name=mine.other_end[0].name),)


def test_connection_that_nobody_answers() -> None:
    """A full queue of a listener drops the SYN, as a firewall does: the state says so, and how often it was tried."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        for _ in range(4):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        process = opened.enter_context(running(READY + CONNECT.format(port=port)))
        found = until(lambda: fds_of(process.pid).sockets, lambda s: any(each.retransmits for each in s))
    (tcp,) = (each for each in found if each.kind == "tcp")
    assert (tcp.remote, tcp.state) == (f"127.0.0.1:{port}", "SYN_SENT")


def test_names_at_the_other_end() -> None:
    """Of a unix socket no file of /proc tells it, the kernel does when asked; of a pipe that nobody reads, too."""
    program = (
        "import os, socket, subprocess\na, b = socket.socketpair()\nr, w = os.pipe()\n"
        "child = subprocess.Popen(['sleep', '600'], stdin=r, pass_fds=[b.fileno()])\nb.close()\nos.close(r)\n"
    )
    with running(program + READY + "time.sleep(600)\n") as process:
        found = fds_of(process.pid)
    (unix,) = (s for s in found.sockets if s.kind == "unix")
    (pipe,) = (p for p in found.pipes if "sleep" in p.other_names)
    assert [holder.name for holder in unix.other_end] == ["sleep"]
    assert (pipe.direction, len(pipe.other_names)) == ("write", len(pipe.other_end))


def test_file_systems_locks_and_deleted_files(tmp_path: Path) -> None:
    """What a rank works on, where it stands, and what of it is locked or gone."""
    program = f"""
import fcntl, os
os.chdir({str(tmp_path)!r})
locked, deleted = open('job.lock', 'w'), open('gone', 'w')
fcntl.flock(locked, fcntl.LOCK_EX)
os.unlink('gone')
"""
    with running(program + READY + "time.sleep(600)\n") as process:
        found = fds_of(process.pid)
    paths = {Path(file.path): (file.locked, file.deleted) for file in found.notable_files}
    told = {path.name: state for path, state in paths.items() if path.parent == tmp_path}
    assert told == {"job.lock": (True, False), "gone": (False, True)}
    (home,) = (mount for mount in found.mounts if mount.working_directory)
    assert str(tmp_path).startswith(home.point.rstrip("/"))
    assert home.files >= 2
    assert not home.remote


@pytest.mark.parametrize(
    ("kind", "remote", "state", "address", "port", "leads"),
    [
        ("tcp", "10.1.2.3:29500", "ESTABLISHED", "10.1.2.3", "29500", True),
        ("tcp6", "[fd00::7]:29500", "SYN_SENT", "fd00::7", "29500", True),
        ("tcp", "10.1.2.3:29500", "ESTABLISHED", "node1.example", "29500", True),
        ("tcp", "127.0.0.1:29500", "ESTABLISHED", "127.0.1.1", "29500", True),
        ("tcp", "10.1.2.4:29500", "ESTABLISHED", "10.1.2.3", "29500", False),
        ("tcp", "10.1.2.3:2950", "ESTABLISHED", "10.1.2.3", "29500", False),
        ("tcp", "0.0.0.0:0", "LISTEN", "10.1.2.3", "0", False),
        ("unix", "10.1.2.3:29500", "ESTABLISHED", "10.1.2.3", "29500", False),
        ("tcp", "10.1.2.3:29500", "ESTABLISHED", "10.1.2.3", "", False),
        ("tcp", "garbage", "ESTABLISHED", "10.1.2.3", "29500", False),
    ],
)
def test_which_connections_lead_to_the_store(
    kind: str, remote: str, state: str, address: str, port: str, leads: bool
) -> None:
    """By address where that is one; a name is never looked up."""
    assert leads_to_store(SocketEntry(kind, "10.9.9.9:40000", remote, state), address, port) is leads


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 16, b"\xff" * 64, struct.pack("=IHHII", 16, 3, 0, 1, 0), os.urandom(200)]
)
def test_answers_of_the_kernel_that_make_no_sense(data: bytes) -> None:
    """They end the reading, and nothing else."""
    found: dict[int, int] = {}
    parse_answer(data, found)
    assert len(found) <= 4


def test_families_that_are_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hardened unit may not ask: then nobody is told."""

    def refused(*_: object) -> socket.socket:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr("agent.proc.sock_diag.socket.socket", refused)
    assert unix_peers() == {}


def test_a_unix_connection_that_nobody_has_accepted_is_with_the_socket_that_listens(tmp_path: Path) -> None:
    """Its other end has no inode yet."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as near:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        near.connect(str(tmp_path / "socket"))
        mine, listening = (os.fstat(each.fileno()).st_ino for each in (near, server))
        assert unix_peers()[mine] == listening
        with server.accept()[0] as far:
            assert unix_peers()[mine] == os.fstat(far.fileno()).st_ino
