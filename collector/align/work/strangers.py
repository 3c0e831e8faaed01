"""Whom outside its job a rank waits to hear from: another job, a service or a daemon on its node.

Whether such a one works, hangs or has nothing to say its own looks would tell, and no look at this job does.
"""

from collections.abc import Collection

from collector.align.roster import RankView
from collector.align.stacks.activity import Activity
from collector.align.work.carried import AWAITS_ANY
from shared.answer.words import Cause
from shared.wire.snapshot import Fds, Holder, Socket

_HEARS = frozenset({"read", "readv", "recvfrom", "recvmsg"})


def awaited_stranger(view: RankView, activity: Activity, own: Collection[int]) -> Holder | None:
    """Return the process that holds the other end of the socket which the main thread reads, or waits to read.

    `own`: the processes of the job on that node. Of one that waits for any of several nobody knows whom it waits for.
    """
    fds = view.looks[-1].fds if view.looks else None
    syscall = None if view.process is None or view.apart is not None else view.process.syscall
    if syscall is None or not isinstance(fds, Fds):
        return None
    waits_for_any = syscall.name in AWAITS_ANY and activity.cause in (Cause.NETWORK, Cause.USER_CODE)
    if not waits_for_any and syscall.name not in _HEARS:
        return None
    connected = [socket for socket in fds.sockets if socket.other_end and not socket.to_store]
    at = [socket for socket in connected if _is_strange(socket, own) and (waits_for_any or socket.fd == syscall.fd)]
    return at[0].other_end[0] if len(at) == 1 else None


def _is_strange(socket: Socket, own: Collection[int]) -> bool:
    return all(holder.pid not in own for holder in socket.other_end)
