"""What real processes hold open."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.proc.mounts import Mounts, is_remote
from agent.proc.procfs import ProcFs
from agent.proc.socket_tables import SocketEntry, Sockets
from agent.sources.fds import FdsSource
from agent.sources.source import LookDepth
from shared.wire.snapshot import Fds
from tests.build.processes.looking import PLAIN, ask_source, rank_of
from tests.build.processes.processes import READY, running

pytestmark = pytest.mark.ptrace


def fds_of(pid: int, question: LookDepth = PLAIN) -> Fds:
    """Look at the descriptors of a process."""
    found = ask_source(FdsSource(), rank_of(pid), question)
    assert isinstance(found, Fds)
    return found


def test_files_tell_how_far_they_are_and_who_may_be_written(tmp_path: Path) -> None:
    """Two looks show by how much one goes through them."""
    (tmp_path / "read").write_bytes(b"x" * 100)
    program = (
        f"w = open({str(tmp_path / 'w')!r}, 'wb', 0); w.write(b'x' * 70)\n"
        f"r = open({str(tmp_path / 'read')!r}, 'rb', 0); r.read(30)\n"
    )
    with running(program + READY + "time.sleep(600)\n") as process:
        found = fds_of(process.pid)
    by_name = {Path(path).name: fd for fd, path in found.files.items()}
    assert found.positions[by_name["w"]] == 70 and by_name["w"] in found.writable
    assert found.positions[by_name["read"]] == 30 and by_name["read"] not in found.writable


def test_connections_tell_what_they_have_carried() -> None:
    """Also such as nobody has read from yet; what is no TCP socket tells nothing, and none of them is changed by it."""
    program = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "near = socket.create_connection(server.getsockname()); far, _ = server.accept()\n"
        "near.sendall(b'x' * 5000); far.recv(10); pair = socket.socketpair()\n"
    )
    with running(program + READY + "time.sleep(600)\n") as process:
        sockets = fds_of(process.pid).sockets
        again = fds_of(process.pid).sockets
    carried = sorted(s.received_bytes or 0 for s in sockets if s.kind.startswith("tcp"))
    assert carried == [0, 0, 5000] and max(s.sent_bytes or 0 for s in sockets) >= 5000
    assert {s.received_bytes for s in sockets if s.kind == "unix"} == {None}
    assert again == sockets


def test_descriptors_are_counted_by_kind(tmp_path: Path) -> None:
    """Files, folders, devices, and the kernel's own inventions; each with what it is on request.

    A rank blocked on a full pipe waits for whoever should read it.
    """
    program = (
        f"import os, select\nkept = [open({str(tmp_path / 'a')!r}, 'w'), open('/dev/zero'), select.epoll(),\n"
        f" os.open({str(tmp_path)!r}, os.O_RDONLY), os.memfd_create('x'), os.eventfd(0)]\n"
    )
    with running(program + READY + "time.sleep(600)\n", stdin=-1) as process:
        found, whole = fds_of(process.pid), fds_of(process.pid, LookDepth(full=True))
    for kind in ("file", "device", "eventpoll", "directory", "memfd", "eventfd", "pipe"):
        assert found.by_kind[kind] >= 1, kind
    assert found.total == sum(found.by_kind.values())
    assert found.limit is not None
    assert "/dev/zero" in found.devices
    assert sum(found.files_by_file_system.values()) == found.by_kind["file"]
    assert found.full is None and whole.full is not None and whole.full[1].startswith("pipe:[")
    pipes = {pipe.fd: pipe for pipe in found.pipes}
    assert (pipes[1].direction, pipes[0].direction) == ("write", "read")
    assert os.getpid() in pipes[1].other_end and process.pid not in pipes[1].other_end


def test_pipe_whose_other_end_nobody_holds(tmp_path: Path) -> None:
    """A FIFO is told by its path; that it has no writer explains why it gives nothing."""
    fifo = tmp_path / "input"
    os.mkfifo(fifo)
    program = f"import os\nkept = os.open({str(fifo)!r}, os.O_RDONLY | os.O_NONBLOCK)\n"
    with running(program + READY + "time.sleep(600)\n") as process:
        pipes = [pipe for pipe in fds_of(process.pid).pipes if pipe.path == str(fifo)]
        assert [(pipe.direction, pipe.other_end) for pipe in pipes] == [("read", ())]
        writer = os.open(fifo, os.O_WRONLY)
        pipes = [pipe for pipe in fds_of(process.pid).pipes if pipe.path == str(fifo)]
        os.close(writer)
    assert [pipe.other_end for pipe in pipes] == [(os.getpid(),)]


def test_sockets_tell_peer_and_state(tmp_path: Path) -> None:
    """The address that a rank waits for may be the fault."""
    path = tmp_path / "socket"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            f"import socket\nkept = [socket.create_connection(('127.0.0.1', {port})), socket.socket(socket.AF_UNIX)]\n"
            f"kept[1].bind({str(path)!r}); kept[1].listen()\n"
        )
        with running(program + READY + "time.sleep(600)\n") as process:
            sockets = fds_of(process.pid).sockets
        mine = Sockets(ProcFs(), os.getpid()).get(os.fstat(server.fileno()).st_ino)  # of the same network namespace
    assert mine is not None and mine.local == f"127.0.0.1:{port}"
    (tcp,) = [s for s in sockets if s.kind == "tcp"]
    assert (tcp.remote, tcp.state) == (f"127.0.0.1:{port}", "ESTABLISHED")
    (unix,) = [s for s in sockets if s.kind == "unix"]
    assert (unix.local, unix.state) == (str(path), "LISTEN")


INET = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 43210 1 0 100 0 0 10 0
   1: 0100007F:1F90 0300A8C0:D2A4 02 00000001:00000000 01:00000C1F 00000006  1000        0 43211 1 0 100 0 0 10 0
   2: garbage
   3: 0100007F:1F90 XX:D2A4 02 0 0 0 1000 0 43212
"""

INET6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 0000000000000000FFFF00000100007F:0050 01 0:10 0:0 0 0 0 77 1
"""


def tables(tmp_path: Path, **files: str) -> Sockets:
    """Read made-up tables of the kernel's."""
    (tmp_path / "7" / "net").mkdir(parents=True)
    for kind, table in files.items():
        (tmp_path / "7" / "net" / kind).write_text(table)
    return Sockets(ProcFs(tmp_path), 7)


def test_tables_of_the_kernel(tmp_path: Path) -> None:
    """Addresses are hexadecimal, in the machine's byte order; lines that make no sense are left out."""
    found = tables(tmp_path, tcp=INET, tcp6=INET6)
    assert found.get(43210) == ("tcp", "127.0.0.1:8080", "0.0.0.0:0", "LISTEN", 0, 0, 0)
    assert found.get(43211) == ("tcp", "127.0.0.1:8080", "192.168.0.3:53924", "SYN_SENT", 1, 0, 6)
    assert found.get(77) == ("tcp6", "[::1]:8080", "127.0.0.1:80", "ESTABLISHED", 0, 16, 0)
    assert found.get(43212) is None
    assert found.get(1) is None


@pytest.mark.parametrize(("mine", "others"), [("127.0.0.2", "127.0.0.3"), ("0.0.0.0", None)])
def test_who_should_accept_a_connection(mine: str, others: str | None) -> None:
    """Whoever listens on the same port of another address should not."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server((mine, 0)))
        port = server.getsockname()[1]
        if others is not None:
            opened.enter_context(socket.create_server((others, port)))
        near = opened.enter_context(socket.create_connection(("127.0.0.2", port)))
        inode = os.fstat(near.fileno()).st_ino
        assert Sockets(ProcFs(), os.getpid()).accepting(inode) == [os.fstat(server.fileno()).st_ino]
        opened.enter_context(server.accept()[0])
        assert Sockets(ProcFs(), os.getpid()).accepting(inode) == []


def test_a_connection_for_which_a_backlog_has_no_room_is_with_whoever_listens() -> None:
    """Its SYN was dropped, and the kernel sends it again."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as held:
        for _ in range(3):
            near = held.enter_context(socket.socket())
            near.setblocking(False)
            near.connect_ex(server.getsockname())
        inode = os.fstat(near.fileno()).st_ino
        table = Sockets(ProcFs(), os.getpid())
        assert (entry := table.get(inode)) is not None and entry.state == "SYN_SENT"
        assert table.accepting(inode) == [os.fstat(server.fileno()).st_ino]


def test_unix_sockets_of_the_kernel(tmp_path: Path) -> None:
    """With and without a path."""
    table = "Num …\nff: 2 0 00010000 0001 01 5 /run/x y\nff: 3 0 0 0001 03 6\nx\n"
    found = tables(tmp_path, unix=table)
    assert found.get(5) == SocketEntry("unix", "/run/x y", "", "LISTEN")
    assert found.get(6) == SocketEntry("unix", "", "", "ESTABLISHED")


MOUNTINFO = """\
21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
36 21 0:40 / /mnt/my\\040data rw,noatime master:1 - nfs4 server:/export rw
37 21 0:41 / /scratch rw - fuse.juicefs juice rw
garbage
x y z
"""


def test_file_systems_are_told_without_touching_them() -> None:
    """By the mount's number or by the path."""
    mounts = Mounts(MOUNTINFO)
    assert mounts.type_of_mount(36) == "nfs4"
    assert mounts.type_of_path("/mnt/my data/x/y") == "nfs4"
    assert mounts.type_of_path("/mnt/my") == "ext4"
    assert mounts.type_of_path("/scratch") == "fuse.juicefs"


@pytest.mark.parametrize(
    ("kind", "remote"), [("ext4", False), ("nfs4", True), ("fuse.x", True), (None, True), ("tmpfs", False)]
)
def test_file_systems_that_may_hang(kind: str | None, remote: bool) -> None:
    """What is not known may."""
    assert is_remote(kind) is remote


def test_many_descriptors_with_long_names_are_cut_and_counted(tmp_path: Path) -> None:
    """A job chooses how many it has and what they are called; what is told is bounded, and nobody is refused for it."""
    folder = tmp_path
    for _ in range(15):
        folder /= "x" * 250
    folder.mkdir(parents=True)
    program = f"""
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 25_000), hard))
os.chdir({str(folder)!r})
first = os.open('shard', os.O_CREAT | os.O_RDWR)
number = min(hard, 25_000) - 50
kept = [os.dup(first) for _ in range(number)]
"""
    with running(program + READY + "time.sleep(600)\n") as process:
        found = fds_of(process.pid, LookDepth("none", full=True))
        held = len(os.listdir(f"/proc/{process.pid}/fd"))
    assert found.total == held > 4000
    assert found.full is not None
    assert 0 < len(found.full) < 1000
    assert len(found.model_dump_json()) < 4 * 1024 * 1024
    with running("import os\nkept = [os.pipe() for _ in range(300)]\n" + READY + "time.sleep(600)\n") as process:
        found = fds_of(process.pid)
    assert found.by_kind["pipe"] >= 600 and len(found.pipes) == 256
