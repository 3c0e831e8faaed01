"""What travels between processes of a fork server: values, and open files with them, one message each."""

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

_MOST_BYTES = 1 << 20
_MOST_FILES = 4


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a line."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        _widen(end)
    return ends


def line() -> socket.socket:
    """Return an end of a line that is not connected yet; what accepts at a door that is one has lines like it."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _widen(end)
    return end


def _widen(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)


def caller_of(line: socket.socket) -> tuple[int, int]:
    """Return who connected: the process id, as we count, and the user."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", credentials)
    return pid, user


def send(line: socket.socket, value: Any, files: Sequence[int] = ()) -> None:
    """Send a value that JSON can hold, and descriptors of open files."""
    socket.send_fds(line, [json.dumps(value).encode()], list(files))


def receive(line: socket.socket) -> tuple[Any, list[int]]:
    """Wait for a value and descriptors; raises EOFError when the other end is gone."""
    message, files, _, _ = socket.recv_fds(line, _MOST_BYTES, _MOST_FILES)
    if not message:
        raise EOFError
    return json.loads(message), files
