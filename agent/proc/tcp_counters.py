"""What a TCP connection of another process has carried, and who spoke last in it: no file in /proc shows it.

The descriptor is duplicated, asked with `getsockopt(TCP_INFO)` and closed again within microseconds; nothing is read
from it. That works in every network namespace, unlike sock_diag(7), and needs what ptrace needs.
Structure: `struct tcp_info` in include/uapi/linux/tcp.h; its fields are only ever added to.
"""

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from agent.proc.libc import call_libc

_PIDFD_GETFD = 438
_INFO_BYTES = 192
_LAST_AT = 44
_LAST = struct.Struct("=I4xI")
"""tcpi_last_data_sent and tcpi_last_data_recv: milliseconds since then."""
_HANDSHAKE = 1
"""What a connection may count as sent in which nothing was: one that has just been asked may show no other sign."""
_BYTES_AT = 120
_BYTES = struct.Struct("=QQ")
"""tcpi_bytes_acked and tcpi_bytes_received, from Linux 4.1 on."""


class Carried(NamedTuple):
    """Bytes since the connection was made."""

    sent: int
    received: int
    unanswered_seconds: float | None = None
    """Since when it is our turn: the other side has said something, and nothing was sent since. None: it is not."""
    quiet_seconds: float = 0.0
    """Since when nobody has said anything."""


def bytes_carried(pid: int, fds: Iterable[int]) -> dict[int, Carried]:
    """Return what each of these descriptors of a process has carried; those that are no TCP sockets are left out."""
    found = {}
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return {}
    try:
        for fd in fds:
            with suppress(OSError, struct.error):
                found[fd] = _carried(process, fd)
    finally:
        os.close(process)
    return found


def _carried(process: int, fd: int) -> Carried:
    ours = call_libc("syscall", _PIDFD_GETFD, process, fd, 0)
    try:
        known = socket.socket(fileno=ours)
    except OSError:
        os.close(ours)
        raise
    with known:
        info = known.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    (sent_ms, received_ms), (sent, received) = _LAST.unpack_from(info, _LAST_AT), _BYTES.unpack_from(info, _BYTES_AT)
    ours = received > 0 and (received_ms < sent_ms or sent <= _HANDSHAKE)
    return Carried(sent, received, received_ms / 1000 if ours else None, min(sent_ms, received_ms) / 1000)
