"""The worker server that a rank has opened on a unix socket: our probe's (`unhang run`), or the job's own.

Which socket it is we take from what the rank itself listens on, never from a name in a shared folder.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.wire.trace import Origin

# ffff8f2a: 00000002 00000000 00010000 0001 01 32109 /tmp/unhang-1000/4242.sock
_LISTENING = re.compile(r"^\S+ \S+ \S+ 00010000 0001 01 +(\d+) (/\S{1,107})$", re.MULTILINE)
_PROBE_SOCKET = re.compile(r"/.*/?unhang[\w-]*/(\d+)(?:-\d)?\.sock", re.ASCII)


@dataclass(frozen=True)
class UnixServer:
    """One worker server: where its socket lies, for the rank and for us, and who must be listening on it."""

    pid: int
    uid: int
    path: str
    reach: str
    origin: Origin = Origin.WORKER_SERVER

    def connect(self, deadline: Deadline) -> socket.socket:
        """Connect to the rank (worker_server.RankServer), however long the path: an address holds 107 bytes."""
        with ExitStack() as undo:
            channel = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            channel.settimeout(max(deadline.left(), 0.001))
            place = os.open(self.reach, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                channel.connect(f"/proc/self/fd/{place}")
            finally:
                os.close(place)
            self._check_peer(channel)
            undo.pop_all()
            return channel

    def _check_peer(self, channel: socket.socket) -> None:
        size = struct.calcsize("=iII")
        pid, uid, _ = struct.unpack("=iII", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if (pid, uid) != (self.pid, self.uid):
            told = f"process {pid} of uid {uid} listens on the socket of rank process {self.pid}"
            raise Unavailable(Reason.REFUSED, told)


def find_unix_server(rank: Rank, procfs: ProcFs) -> UnixServer | None:
    """Return the server that a rank listens with; None where it has none, or where we may not see its descriptors.

    Raises Gone.
    """
    pid = rank.stat.pid
    named = rank.environment.get("TORCH_WORKER_SERVER_SOCKET")
    inner = procfs.inner_pid(pid)
    uid = int(procfs.fields(pid, "status").get("Uid", "0 0").split()[1])
    try:
        for path in _listening_paths(procfs, pid):
            probe = _PROBE_SOCKET.fullmatch(path)
            if path == named or (probe is not None and int(probe[1]) == inner):
                return UnixServer(pid, uid, path, procfs.path(pid, "root") + path)
    except NotPermitted:
        pass
    return None


def _listening_paths(procfs: ProcFs, pid: int) -> Iterator[str]:
    """Iterate over the unix sockets in the file system that the process listens on."""
    table = procfs.text(pid, "net/unix", most=8 * 1024 * 1024)
    listening = {f"socket:[{inode}]": path for inode, path in _LISTENING.findall(table)}
    for fd in procfs.fds(pid) if listening else ():
        try:
            path = listening.get(procfs.link(pid, f"fd/{fd}"))
        except Gone:
            continue
        if path is not None:
            yield path
