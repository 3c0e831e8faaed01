"""Requests that a server has taken and not answered: whose turn it is in the connections that it has accepted.

Nothing of what they carry is read. A request is a connection to a port that the process listens on in which the client
spoke last. A long poll looks so, too, and a stream that has stopped in its middle does not.
"""

from collections.abc import Iterator, Sequence

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from agent.proc.socket_tables import SocketEntry, fds_of_sockets
from agent.proc.tcp_counters import bytes_carried
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.wire.snapshot import Requests

_MOST_ASKED = 512
"""Connections of one process: asking about one takes some microseconds."""
_CONNECTED = ("ESTABLISHED", "CLOSE_WAIT")
"""In the second the client has given up."""

_Found = tuple[int, float]
"""Who holds a request, and for how many seconds."""


def unanswered_by(pids: Sequence[int], context: LookContext) -> Requests | None:
    """Return what these processes have not answered; None where none of them listens. What they say to each other is
    no request.
    """
    if not context.procfs.is_real:
        return None
    held = {pid: held for pid in pids if (held := _sockets(context.procfs, pid))}
    own = {inode for sockets in held.values() for inode in sockets}
    listening, found = dict[int, int](), list[_Found]()
    for pid, sockets in held.items():
        try:
            table = context.sockets(pid)
        except (Gone, NotPermitted):
            continue
        entries = [(fd, inode, entry) for inode, fd in sockets.items() if (entry := table.get(inode)) is not None]
        ports = {_port(entry) for _, _, entry in entries if _listens(entry)}
        theirs = [(fd, inode) for fd, inode, entry in entries if entry.state in _CONNECTED and _port(entry) in ports]
        accepted = [fd for fd, inode in theirs if table.other_end(inode) not in own][:_MOST_ASKED]
        listening |= {inode: entry.unread_bytes for _, inode, entry in entries if _listens(entry)}
        found += ((pid, seconds) for seconds in _unanswered(pid, accepted))
    if not listening:
        return None
    oldest = max(found, key=lambda each: each[1], default=None)
    return Requests(
        unanswered=len(found),
        oldest_seconds=None if oldest is None else round(oldest[1], 1),
        held_by=tuple(dict.fromkeys(pid for pid, _ in found)),
        unaccepted=sum(listening.values()),
    )


def _sockets(procfs: ProcFs, pid: int) -> dict[int, int]:
    """Return the descriptors of a process's sockets by their inodes; none where we may not know."""
    try:
        return {inode: fd for fd, inode in fds_of_sockets(procfs, pid)}
    except (Gone, NotPermitted):
        return {}


def _listens(entry: SocketEntry) -> bool:
    return entry.kind.startswith("tcp") and entry.state == "LISTEN"


def _port(entry: SocketEntry) -> str:
    return entry.local.rpartition(":")[2]


def _unanswered(pid: int, fds: Sequence[int]) -> Iterator[float]:
    told = (carried.unanswered_seconds for carried in bytes_carried(pid, fds).values())
    return (seconds for seconds in told if seconds is not None)
