"""What one rank's descriptors show that those of the others do not: evidence beside a finding, never a conviction.

1. A connection that is not made, or that the other side has closed: the address it leads to may be the fault.
2. Data that is sent again and again: nobody acknowledges it, though both ends hold the connection. While any is under
   way, a network may only be slow.
3. The store: connected to by nearly all others, and not by this rank.
4. A pipe that the rank is blocked on, and nobody at its other end.
5. Lock files and deleted files that this rank alone has; a table of descriptors that is full.
6. The file server that does not answer it, or a child that it waits for.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from collector.align.observations import Observations
from collector.align.roster import RankView, Roster
from collector.align.thresholds import (
    BROKEN_LINK_RETRANSMITS,
    FULL_TABLE,
    LEAST_AGREEING,
    LEAST_RETRANSMITS,
    NEARLY_ALL,
)
from collector.judge.fault import Accuser, Fault
from collector.judge.report.sentences import say
from shared.answer.diagnosis import FdEvidence, Link, LinkEnd
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.wire.fds import Pipe
from shared.wire.snapshot import Fds, Process, Socket

_MOST = 6
"""Pieces of evidence for one rank."""
_MOST_RANKS = 8
_CONNECTED = "ESTABLISHED"


@costs_itself(lambda fault, observations: fault)
def with_descriptors(fault: Fault, observations: Observations) -> Fault:
    """Add what the culprits' descriptors show; where no agent shows them, what the victims' connections show."""
    found: list[FdEvidence] = []
    for rank in fault.culprits[:_MOST_RANKS]:
        found += list(_of_rank(observations.roster.ranks[rank], observations.roster))[:_MOST]
    unseen = fault.kind is Kind.RANK_UNREACHABLE
    if fault.culprits and not unseen:
        return replace(fault, evidence=(*fault.evidence, *found)) if found else fault
    stuck = _stuck_connections(fault, observations.roster, to_strangers=unseen)[:_MOST]
    if not stuck:
        return fault
    found = [_of_connection(view, socket, observations.roster) for view, socket in stuck]
    fault = replace(fault, named_by=fault.named_by | {Accuser.CONNECTIONS}, evidence=(*fault.evidence, *found))
    return _with_links(fault, stuck, observations.roster) if unseen or fault.kind is Kind.STUCK_TOGETHER else fault


def under_way(fault: Fault, observations: Observations) -> str | None:
    """Say what has left a victim and has not come to the other end; None where all data has come."""
    sent = [
        (socket.retransmits, view, socket)
        for view, socket in _connections(fault, observations.roster)
        if socket.state == _CONNECTED and socket.unsent_bytes > 0
    ]
    if not sent:
        return None
    times, view, socket = max(sent, key=lambda each: (each[0], -each[1].rank, each[2].remote))
    owner = _owner(socket, observations.roster)
    to = socket.remote if owner is None else f"rank {owner.rank}{_on(owner)}"
    again = f", sent {times + 1} times," if times else ""
    return f"data{again} from rank {view.rank}{_on(view)} to {to} has not been acknowledged"


def _on(view: RankView) -> str:
    return f" on {view.host}" if view.host else ""


def _connections(fault: Fault, roster: Roster) -> list[tuple[RankView, Socket]]:
    """The victims' TCP sockets, by rank."""
    tables = ((view, fds_of(view)) for view in (roster.ranks[rank] for rank in fault.victims))
    return [(view, s) for view, fds in tables if fds is not None for s in fds.sockets if s.kind.startswith("tcp")]


def _stuck_connections(fault: Fault, roster: Roster, *, to_strangers: bool) -> list[tuple[RankView, Socket]]:
    """Connections of victims that do not get on; of these perhaps those alone that lead to no rank that is seen."""
    stuck = [(view, socket) for view, socket in _connections(fault, roster) if _is_stuck(socket)]
    return [each for each in stuck if _owner(each[1], roster) is None] if to_strangers else stuck


def _with_links(fault: Fault, stuck: list[tuple[RankView, Socket]], roster: Roster) -> Fault:
    """Where all are stuck together, data that nobody acknowledges for long tells the link, with both ends."""
    lossy = [(view, s) for view, s in stuck if s.state == _CONNECTED and s.retransmits >= BROKEN_LINK_RETRANSMITS]
    if not lossy:
        return fault
    links = tuple(
        Link(from_=LinkEnd(rank=view.rank, host=view.host), to=_end(socket, roster)) for view, socket in lossy
    )
    cause = Cause.NETWORK if fault.cause in (None, Cause.UNKNOWN) else fault.cause
    return replace(fault, cause=cause, links=(*fault.links, *links))


def _end(socket: Socket, roster: Roster) -> LinkEnd:
    owner = _owner(socket, roster)
    return LinkEnd(host=socket.remote) if owner is None else LinkEnd(rank=owner.rank, host=owner.host)


def fds_of(view: RankView) -> Fds | None:
    """Return the newest descriptors that any look gave of a rank."""
    return next((look.fds for look in reversed(view.looks) if isinstance(look.fds, Fds)), None)


def _of_rank(view: RankView, roster: Roster) -> Iterable[FdEvidence]:
    fds = fds_of(view)
    if fds is None or view.gone:
        return
    others = [table for other in roster.present() if other is not view and (table := fds_of(other)) is not None]
    yield from (_of_connection(view, socket, roster) for socket in fds.sockets if _is_stuck(socket))  # 1, 2
    yield from _of_store(view, fds, others)  # 3
    yield from _of_pipes(view)  # 4
    yield from _of_files(view, fds, others)  # 5
    yield from _of_limit(view, fds)
    yield from _of_servers(view, fds)  # 6


def _of_connection(view: RankView, socket: Socket, roster: Roster) -> FdEvidence:
    owner = _owner(socket, roster)
    told = _connection_in_words(view, socket, "" if owner is None else f" (rank {owner.rank})")
    return _evidence(view, told, fd=socket.fd, target=socket.remote)


def _is_stuck(socket: Socket) -> bool:
    if not socket.kind.startswith("tcp"):
        return False
    resent = socket.retransmits >= LEAST_RETRANSMITS and socket.unsent_bytes > 0
    half_closed = socket.state == "CLOSE_WAIT" and socket.to_store
    return socket.state == "SYN_SENT" or half_closed or (socket.state == _CONNECTED and resent)


def _connection_in_words(view: RankView, socket: Socket, owner: str) -> str:
    to = f"{'the store at ' if socket.to_store else ''}{socket.remote}{owner}"
    words = {"rank": view.rank, "to": to, "state": socket.state, "unsent": socket.unsent_bytes}
    words |= {"times": socket.retransmits, "sent": socket.retransmits + 1}
    return say("connection", words | ({"again": ""} if socket.retransmits else {}))


def _owner(socket: Socket, roster: Roster) -> RankView | None:
    """Which rank holds the other end, where one does by its own table."""
    for view in roster.present():
        fds = fds_of(view)
        ends = () if fds is None else fds.sockets
        if any(end.local == socket.remote and end.remote in (socket.local, "0.0.0.0:0", "[::]:0") for end in ends):
            return view
    return None


def _of_store(view: RankView, fds: Fds, others: list[Fds]) -> Iterable[FdEvidence]:
    if any(socket.to_store for socket in fds.sockets) or len(others) < LEAST_AGREEING or _serves_store(view, fds):
        return
    connected = [s.remote for table in others for s in table.sockets if s.to_store and s.state == _CONNECTED]
    with_one = sum(any(s.to_store and s.state == _CONNECTED for s in table.sockets) for table in others)
    if with_one >= NEARLY_ALL * len(others):
        store = Counter(connected).most_common(1)[0][0]
        text = f"rank {view.rank} has no connection to the store at {store}, which {with_one} other ranks have"
        yield _evidence(view, text, target=store)


def _serves_store(view: RankView, fds: Fds) -> bool:
    """Rank 0 may hold the store itself, and reach it without a connection that looks like the others'."""
    return view.rank == 0 and any(socket.state == "LISTEN" for socket in fds.sockets)


class BlockedPipe(NamedTuple):
    """The pipe that a rank is blocked on."""

    fd: int
    path: str | None
    reads: bool
    others: tuple[str, ...]
    """Who else holds its other end: `pid 132 (cat)`; empty: no visible process does."""
    own: bool
    """Does the rank itself hold the other end, too, for instance because it never closed it?"""


def pipe_of(view: RankView) -> BlockedPipe | None:
    """Return the pipe that a rank is blocked on; None where it is not blocked on one whose ends are known."""
    fds, process = fds_of(view), view.process
    fd = _blocked_fd(process)
    if fds is None or process is None or process.syscall is None or fd is None:
        return None
    reads = process.syscall.name in ("read", "readv")
    found = (pipe for pipe in fds.pipes if pipe.fd == fd)
    return next((_blocked(pipe, view, reads=reads) for pipe in found), None)


def _blocked(pipe: Pipe, view: RankView, *, reads: bool) -> BlockedPipe:
    own = None if view.identity is None else view.identity.pid
    held = {pid: pipe.other_names[at] if at < len(pipe.other_names) else "" for at, pid in enumerate(pipe.other_end)}
    others = tuple(f"pid {pid} ({name})" if name else f"pid {pid}" for pid, name in held.items() if pid != own)
    return BlockedPipe(pipe.fd, pipe.path, reads, others, own in held)


def _of_pipes(view: RankView) -> Iterable[FdEvidence]:
    pipe = pipe_of(view)
    if pipe is None:
        return
    what = f"rank {view.rank} {'reads' if pipe.reads else 'writes'} a pipe (fd {pipe.fd})"
    holders = [*pipe.others[:4], *(["the rank itself"] if pipe.own else [])]
    text = f"{what}, and no visible process holds its other end"
    if holders:
        text = f"{what} whose other end is held by {', '.join(holders)}"
    yield _evidence(view, text, fd=pipe.fd, target=pipe.path)


def _of_servers(view: RankView, fds: Fds) -> Iterable[FdEvidence]:
    """The remote file systems of the files at which the rank, or a child of it, is in uninterruptible sleep."""
    children = (child.process for child in view.looks[-1].children)
    for who, process in [("", view.process), *(("a child of ", each) for each in children)]:
        path = None if process is None or process.state != "D" or process.syscall is None else process.syscall.target
        on = [mount for mount in fds.mounts if path is not None and _is_on(path, mount.point)]
        mount = max(on, key=lambda each: len(each.point), default=None)
        if mount is not None and mount.remote and mount.source:
            where = f"{mount.source} ({mount.file_system}, mounted at {mount.point})"
            text = f"{who}rank {view.rank} is in uninterruptible sleep for a file on {where}"
            yield _evidence(view, text, target=mount.point).model_copy(update={"mounted": mount.source})
            return


def _is_on(path: str, point: str) -> bool:
    return path == point or path.startswith(f"{point.rstrip('/')}/")


def _blocked_fd(process: Process | None) -> int | None:
    if process is None or process.syscall is None or process.syscall.name not in ("read", "readv", "write", "writev"):
        return None
    return process.syscall.fd


def _of_files(view: RankView, fds: Fds, others: list[Fds]) -> Iterable[FdEvidence]:
    if len(others) < LEAST_AGREEING:
        return
    elsewhere = {(file.path, file.locked, file.deleted) for table in others for file in table.notable_files}
    odd = [file for file in fds.notable_files if (file.path, file.locked, file.deleted) not in elsewhere]
    for file in odd[:2]:
        what = "holds a lock on" if file.locked else "has open, though it was deleted,"
        yield _evidence(view, f"rank {view.rank} alone {what} {file.path}", fd=file.fd, target=file.path)


def _of_limit(view: RankView, fds: Fds) -> Iterable[FdEvidence]:
    if fds.limit is not None and fds.limit > 0 and fds.total >= FULL_TABLE * fds.limit:
        yield _evidence(view, f"rank {view.rank} has {fds.total} of at most {fds.limit} descriptors open")


def _evidence(view: RankView, text: str, *, fd: int | None = None, target: str | None = None) -> FdEvidence:
    pid = None if view.identity is None else view.identity.pid
    return FdEvidence(ranks=str(view.rank), text=text, pid=pid, fd=fd, target=target)
