"""What a process's main thread waits for beyond its own memory, and who holds the other end: without stopping anybody.

A call of one descriptor names it in its arguments. Of `poll` and `select` they lie in its caller's memory, of `epoll`
in the kernel's list of what is watched, `/proc/PID/fdinfo/FD`, proc(5).
"""

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from agent.proc.socket_tables import SocketEntry
from agent.proc.tcp_counters import bytes_carried
from agent.sources.look_context import LookContext
from agent.tools.syscall_names import SystemCall
from shared.errors import NotPermitted
from shared.redaction.redact import redact
from shared.wire.fds import EndKind, Holder, OtherEnd
from shared.wire.snapshot import Process, Syscall

_MOST_HOLDERS = 8
_MOST_AWAITED = 32
"""Descriptors of a call that waits for any of several: a server may watch thousands."""
_FLAGS = re.compile(r"^flags:\s*(\d+)$", re.MULTILINE)
# tfd:        5 events:       19 data:                5  pos:0 ino:1a0f sdev:9
_WATCHED = re.compile(r"^tfd:\s*(\d{1,9}) ", re.MULTILINE)
_SOCKET = re.compile(r"socket:\[(\d{1,20})\]")
_TERMINAL = re.compile(r"/dev/(pts/\d+|tty\w*|console)")
_POLLED = struct.Struct("=ihh")
_SET_BITS = 1024
"""`FD_SETSIZE`: the C library's sets hold no more."""
POLLS, SELECTS = frozenset({"poll", "ppoll"}), frozenset({"select", "pselect6"})
IN_MEMORY = POLLS | SELECTS
"""Calls whose descriptors lie in their caller's memory."""
EPOLLS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
CHILD_WAITS = frozenset({"wait4", "waitid"})
_ONE_END = frozenset(
    "read readv recvfrom recvmsg recvmmsg write writev sendto sendmsg sendmmsg connect accept accept4".split()
)
AWAITING = IN_MEMORY | EPOLLS | CHILD_WAITS | _ONE_END
"""System calls that may wait for somebody beyond the process."""
_NO_PARTNER = "wait_for_partner"
"""The kernel function in which whoever opens a FIFO waits for the other side to do so."""
_AT_PIPE = ("pipe_read", "pipe_write")
_EPOLL = "anon_inode:[eventpoll]"
_MOST_SEARCHED = 256
_P_PID = 1
_OF_RAY, _LONGEST_TITLE = "ray::", 128


def polled(call: SystemCall, read: Callable[[int, int], bytes]) -> tuple[int, ...]:
    """Return the descriptors that poll(2) or select(2) waits for, by the memory of its caller; none of another call."""
    if call.name in SELECTS:
        return _selected(call.arguments, read)
    if call.name not in POLLS or len(call.arguments) < 2:
        return ()
    told = read(call.arguments[0], min(call.arguments[1], _MOST_AWAITED) * _POLLED.size)
    whole = told[: len(told) // _POLLED.size * _POLLED.size]
    return tuple(fd for fd, _, _ in _POLLED.iter_unpack(whole) if fd >= 0)


def _selected(arguments: Sequence[int], read: Callable[[int, int], bytes]) -> tuple[int, ...]:
    """Of each of its three sets, `fd_set` of select(2), the bits that are set."""
    if len(arguments) < 4 or not 0 < arguments[0] <= _SET_BITS:
        return ()
    sets = [int.from_bytes(read(each, _SET_BITS // 8), "little") for each in arguments[1:4] if each]
    return tuple(fd for fd in range(arguments[0]) if any(each >> fd & 1 for each in sets))[:_MOST_AWAITED]


def watched(procfs: ProcFs, pid: int, fd: int) -> tuple[int, ...]:
    """Return the descriptors that are watched by one of epoll(7)."""
    told = procfs.known_text(pid, f"fdinfo/{fd}", most=8192)
    return tuple(map(int, _WATCHED.findall(told)))[:_MOST_AWAITED]


def child_of(procfs: ProcFs, pid: int, call: SystemCall) -> int | None:
    """Return the process whose end it waits for; None: any of its children, or it counts them otherwise than we do."""
    if call.name not in CHILD_WAITS or len(call.arguments) < 2 or not procfs.is_in_our_namespace(pid, "pid"):
        return None
    at = 0 if call.name == "wait4" else 1
    named = call.name == "wait4" or call.arguments[0] == _P_PID
    child = call.arguments[at] & 0xFFFF_FFFF
    return child if named and 0 < child < 1 << 31 else None


def with_awaited(process: Process, context: LookContext) -> Process:
    """Add what the call waits for that the main thread of a process is in."""
    call = process.syscall
    awaited = () if call is None else tuple(_awaited(process, call, context))
    if len(awaited) > 1:  # such as the pair by which an event loop wakes itself
        awaited = tuple(each for each in awaited if not each.own or each.holders)
    return process.model_copy(update={"awaits": awaited}) if awaited else process


def _awaited(process: Process, call: Syscall, context: LookContext) -> Iterator[OtherEnd]:
    if call.name in CHILD_WAITS:
        yield OtherEnd(kind="child", holders=() if call.child is None else _holders(context, process.pid, [call.child]))
    elif process.wchan == _NO_PARTNER:
        yield OtherEnd(kind="fifo", name=call.target or "")
    elif call.name in AWAITING:
        pid, at_pipe = process.pid, (process.wchan or "").endswith(_AT_PIPE)
        fds = call.fds if call.fd is None or call.name in EPOLLS else (call.fd,)
        ends = [_end(context, pid, fd, at_pipe=at_pipe) for fd in fds]
        yield from (end for end in ends if end is not None)
        if call.name in POLLS and not any(ends):
            yield from _by_threads(context, pid)
        elif call.name in EPOLLS and all(end is None or end.own for end in ends):
            yield from (end for end in _by_threads(context, pid) if end.kind != "clients")
    elif call.name == "futex" and call.ends_in_seconds is not None:  # gRPC looks again and again
        yield from (end for end in _by_threads(context, process.pid) if end.kind != "clients")


def _by_threads(context: LookContext, pid: int) -> Iterator[OtherEnd]:
    """ZeroMQ's and gRPC's own threads watch the sockets, and wake the one that waits."""
    for fd in _watched_by_threads(context.procfs, pid):
        end = _end(context, pid, fd, at_pipe=False)
        if end is not None:
            yield end


def _watched_by_threads(procfs: ProcFs, pid: int) -> tuple[int, ...]:
    with suppress(Gone, NotPermitted):
        lists = [fd for fd in procfs.fds(pid)[:_MOST_SEARCHED] if procfs.known_link(pid, f"fd/{fd}") == _EPOLL]
        return tuple(fd for each in lists for fd in watched(procfs, pid, each))[:_MOST_AWAITED]
    return ()


def _end(context: LookContext, pid: int, fd: int, *, at_pipe: bool) -> OtherEnd | None:
    with suppress(Gone, NotPermitted):
        target = context.procfs.link(pid, f"fd/{fd}")
        socket = _SOCKET.fullmatch(target)
        if socket is not None:
            return _of_socket(context, pid, fd, int(socket[1]))
        if _TERMINAL.fullmatch(target):
            return OtherEnd(kind="terminal", fd=fd, name=target)
        if target.startswith("pipe:") or (at_pipe and target.startswith("/")):
            return _of_pipe(context, pid, fd, target)
    return None


def _of_socket(context: LookContext, pid: int, fd: int, inode: int) -> OtherEnd | None:
    table = context.sockets(pid)
    entry = table.get(inode)
    if entry is None:
        return None
    if entry.state == "LISTEN" or (entry.kind == "udp" and entry.remote.endswith(":0")):
        return OtherEnd(kind="clients", fd=fd, name=entry.local, unread_bytes=entry.unread_bytes)
    peer = context.unix_peers.get(inode) if entry.kind == "unix" else table.other_end(inode)
    other = None if peer is None else table.get(peer)
    ends = [peer] if peer else table.accepting(inode)  # what nobody has accepted yet is with whoever listens
    pids = [holder for end in ends for holder, _ in context.holders(f"socket:[{end}]")]
    return OtherEnd(
        kind="socket",
        fd=fd,
        name=entry.remote or (entry.local if other is None else entry.local or other.local),
        local=entry.local,
        state=entry.state,
        unread_bytes=0 if other is None else other.unread_bytes,
        unsent_bytes=entry.unsent_bytes,
        quiet_seconds=_quiet_seconds(context, pid, fd, entry),
        own=pid in pids,
        holders=_holders(context, pid, [each for each in pids if each != pid]),
    )


def _quiet_seconds(context: LookContext, pid: int, fd: int, entry: SocketEntry) -> float | None:
    asked = bytes_carried(pid, [fd]) if entry.kind.startswith("tcp") and context.procfs.is_real else {}
    return round(asked[fd].quiet_seconds, 1) if fd in asked else None


def _of_pipe(context: LookContext, pid: int, fd: int, target: str) -> OtherEnd:
    mode = _mode(context.procfs, pid, fd)
    pids = [] if mode is None else other_holders(context, target, mode)
    kind: EndKind = "pipe" if target.startswith("pipe:") else "fifo"
    others = _holders(context, pid, [each for each in pids if each != pid])
    return OtherEnd(kind=kind, fd=fd, name="" if kind == "pipe" else redact(target), own=pid in pids, holders=others)


def other_holders(context: LookContext, target: str, mode: int) -> list[int]:
    """Return who holds the other end of a pipe, or of a FIFO, that is open for `mode`: O_RDONLY, O_WRONLY or O_RDWR."""
    others = (holder for holder, at in context.holders(target) if _is_other(_mode(context.procfs, holder, at), mode))
    return list(dict.fromkeys(others))


def _mode(procfs: ProcFs, pid: int, fd: int) -> int | None:
    found = _FLAGS.search(procfs.known_text(pid, f"fdinfo/{fd}", most=4096))
    return None if found is None else int(found[1], 8) & os.O_ACCMODE


def _is_other(other: int | None, mode: int) -> bool:
    return other is not None and (other != mode or other == os.O_RDWR)


def _holders(context: LookContext, of: int, pids: Sequence[int]) -> tuple[Holder, ...]:
    some = list(dict.fromkeys(pids))[:_MOST_HOLDERS]
    return tuple(Holder(pid=pid, name=_name(context.procfs, pid, of)) for pid in some)


def _name(procfs: ProcFs, pid: int, of: int) -> str:
    """Return what a process is called: an actor of Ray's by its class and method, which its title has in full.

    Of processes of the same user alone.
    """
    name = procfs.known_name(pid)
    if not name.startswith(_OF_RAY) or procfs.uids(pid) != procfs.uids(of):
        return name
    title = procfs.known_text(pid, "cmdline", most=_LONGEST_TITLE).partition("\0")[0]
    return redact(title) if title.startswith(name) else name
