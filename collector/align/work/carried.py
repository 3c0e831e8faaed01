"""Rule 4 of `work.py`: the bytes that a rank moves, with the file, connection or pipe that they go through."""

from collections.abc import Iterator, Set

from collector.align.stacks.activity import Activity
from collector.align.stacks.tables.kernel_facts import AWAITS_ANY
from collector.align.thresholds import BUSY_BYTES, SOME_BYTES
from collector.align.work.beats import Between
from collector.align.work.values import Ends, Work
from shared.answer.words import Cause, WorkMeans
from shared.units import bytes_in_words
from shared.wire.snapshot import Fds, Process, RankSnapshot, Socket, Syscall

_MOVES_BYTES = frozenset(
    "read readv pread64 preadv recvfrom recvmsg write writev pwrite64 pwritev sendto sendmsg sendfile splice".split()
)
_STREAMS = frozenset({0, 1, 2})


def of_bytes(
    a: RankSnapshot,
    b: RankSnapshot,
    activity: Activity,
    counters: Between,
    connections: Set[Ends],
    *,
    plainly: bool = False,
) -> Iterator[Work]:
    """Iterate over what a rank reads, writes, sends and receives: by descriptor where that tells, else in all.

    `plainly`: only where a descriptor tells.
    """
    syscall = syscall_of(b)
    found: list[Work] = []
    if isinstance(a.fds, Fds) and isinstance(b.fds, Fds):
        found += _files(a.fds, b.fds, counters.seconds)
        found += _connections(a.fds, b.fds, syscall, activity, connections, counters.seconds)
    yield from found or (() if plainly else _in_all(counters, syscall))


def syscall_of(look: RankSnapshot) -> Syscall | None:
    """Return the call that its main thread was in."""
    return look.process.syscall if isinstance(look.process, Process) else None


def _files(a: Fds, b: Fds, seconds: float) -> Iterator[Work]:
    """The file that it has gone through fastest; not what it writes to its own streams."""
    moved, fd = max(
        (
            (b.positions[fd] - before, fd)
            for fd, before in a.positions.items()
            if fd in b.positions and a.files.get(fd) == b.files.get(fd) and fd not in _STREAMS
        ),
        default=(0, 0),
    )
    if moved > BUSY_BYTES:
        path, rate = b.files[fd], moved / seconds
        verb = "writes" if fd in b.writable else "reads"
        yield Work(WorkMeans.FILE, f"{verb} {path} at {bytes_in_words(rate)}/s", path, seconds, rate)


def _connections(
    a: Fds, b: Fds, syscall: Syscall | None, activity: Activity, connections: Set[Ends], seconds: float
) -> Iterator[Work]:
    """A few bytes are enough on the one that it reads, and while it waits for any; on others it must be much.

    Who asks the same peer over another connection than before has had an answer meanwhile, or tries again.
    """
    awaits = activity.cause is Cause.NETWORK or (syscall is not None and syscall.name in AWAITS_ANY)
    earlier = {_ends(socket): socket for socket in a.sockets if not socket.to_store}
    found = []
    for socket in b.sockets:
        before = earlier.get(_ends(socket))
        if before is None or (socket.remote, socket.local) in connections:
            continue
        is_read = syscall is not None and syscall.fd == socket.fd
        least = 0 if is_read else SOME_BYTES if awaits else BUSY_BYTES
        received = (socket.received_bytes or 0) - (before.received_bytes or 0)
        sent = (socket.sent_bytes or 0) - (before.sent_bytes or 0)
        found += [(moved, way, socket.remote) for moved, way in ((received, "from"), (sent, "to")) if moved > least]
    if found:
        moved, way, remote = max(found)
        rate = moved / seconds
        what = f"{'receives' if way == 'from' else 'sends'} {bytes_in_words(rate)}/s {way} {remote}"
        yield Work(WorkMeans.CONNECTION, what, remote, seconds, rate)
        return
    asked = {socket.remote for socket in earlier.values()}
    new = [each for each in b.sockets if _ends(each) not in earlier and not each.to_store and each.remote in asked]
    again = sorted(each.remote for each in new if (each.remote, each.local) not in connections)
    if awaits and again:
        what = f"asks {again[0]} again, over another connection than in the look before"
        yield Work(WorkMeans.CONNECTION, what, again[0], seconds, 0.0)


def _ends(socket: Socket) -> tuple[int, str, str]:
    return socket.fd, socket.local, socket.remote


def _in_all(counters: Between, syscall: Syscall | None) -> Iterator[Work]:
    """Where no descriptor tells. Of one that is in a read or a write a few bytes are enough."""
    inside = syscall if syscall is not None and syscall.name in _MOVES_BYTES and syscall.fd not in _STREAMS else None
    if counters.moved > (BUSY_BYTES if inside is None else SOME_BYTES):
        target = "" if inside is None else inside.target or ""
        of = f", now {target}" if target.startswith("/") else " through a pipe" if target.startswith("pipe:") else ""
        rate = counters.moved / counters.seconds
        yield Work(WorkMeans.BYTES, f"reads and writes {bytes_in_words(rate)}/s{of}", target, counters.seconds, rate)
