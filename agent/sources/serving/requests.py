"""Requests that a server has taken and not answered: whose turn it is in the connections that it has accepted.

Nothing of what they carry is read. A request is a connection to a port that the process listens on in which the client
spoke last. A long poll looks so, too, and a stream that has stopped in its middle does not.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import takewhile

from agent.errors import Gone
from agent.proc.socket_tables import SocketEntry, fds_of_sockets
from agent.proc.tcp_counters import bytes_carried
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.wire.snapshot import Requests

_MOST_ASKED = 512
"""Connections of one process: asking about one takes some microseconds."""
_CONNECTED = ("ESTABLISHED", "CLOSE_WAIT")
"""In the second the client has given up."""

_Held = list[tuple[int, int, SocketEntry]]
"""Of each socket of a process its descriptor and its inode."""


def unanswered_by(pids: Sequence[int], context: LookContext) -> Requests | None:
    """Return what these processes have not answered; None where none of them listens.

    `pids`: who started a rank, who started that, and so on; then others of that family. What a server's processes say
    to those above them, or beside, is no request; who stands above a server, and asks it, is a client as any other.
    """
    held = {pid: _sockets(pid, context) for pid in pids} if context.procfs.is_real else {}
    listening = {
        inode: entry.unread_bytes for sockets in held.values() for _, inode, entry in sockets if _listens(entry)
    }
    if not listening:
        return None
    line = list(takewhile(pids.__contains__, context.procfs.line(pids[0])))
    servers = _servers(line, held)
    found = dict[int, list[float]]()
    for pid in servers:
        above = line[line.index(pid) + 1 :] if pid in line else ()
        own = {inode for other in servers if other not in above for _, inode, _ in held[other]}
        found[pid] = list(_unanswered(pid, held[pid], own, context))
    waited = [seconds for each in found.values() for seconds in each]
    return Requests(
        unanswered=len(waited),
        oldest_seconds=None if not waited else round(max(waited), 1),
        held_by=tuple(pid for pid, each in found.items() if each),
        unaccepted=sum(listening.values()),
        servers=servers,
    )


def _sockets(pid: int, context: LookContext) -> _Held:
    """Return the sockets of a process that are in its tables; none where we may not know."""
    with suppress(Gone, NotPermitted):
        held = list(fds_of_sockets(context.procfs, pid))
        table = context.sockets(pid) if held else None
        return [
            (fd, inode, entry) for fd, inode in held if table is not None and (entry := table.get(inode)) is not None
        ]
    return []


def _servers(line: Sequence[int], held: Mapping[int, _Held]) -> tuple[int, ...]:
    """Return those up to the outermost that listens, and who listens beside them: whoever started these is none."""
    listen = [pid for pid, sockets in held.items() if any(_listens(entry) for _, _, entry in sockets)]
    outermost = max((at for at, pid in enumerate(line) if pid in listen), default=len(line) - 1)
    return (*line[: outermost + 1], *(pid for pid in listen if pid not in line))


def _listens(entry: SocketEntry) -> bool:
    return entry.kind.startswith("tcp") and entry.state == "LISTEN"


def _port(entry: SocketEntry) -> str:
    return entry.local.rpartition(":")[2]


def _unanswered(pid: int, sockets: _Held, own: Set[int], context: LookContext) -> Iterator[float]:
    """Yield for how long each client has waited whose connection a process has accepted."""
    ports = {_port(entry) for _, _, entry in sockets if _listens(entry)}
    theirs = [(fd, inode) for fd, inode, entry in sockets if entry.state in _CONNECTED and _port(entry) in ports]
    table = context.sockets(pid)
    accepted = [fd for fd, inode in theirs if table.other_end(inode) not in own][:_MOST_ASKED]
    told = (carried.unanswered_seconds for carried in bytes_carried(pid, accepted).values())
    return (seconds for seconds in told if seconds is not None)
