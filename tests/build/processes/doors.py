"""Forks for whoever executes a script: where another program has to start something, which is to be a fork.

The script asks the fork server at its door, and lives as long as the fork: whoever looks for the command, or ends it,
finds the script. The fork is in the script's namespaces.
"""

import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from tests.build.processes.namespaces import have_children_beside
from tests.build.processes.parcels import caller_of, receive, send

_SCRIPT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    line.connect({address!r})
    order = [sys.argv[1:], dict(os.environ), os.getcwd()]
    socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
    status = json.loads(line.recv(64) or b"-9")
sys.exit(status if status >= 0 else 128 - status)
"""


class Order(NamedTuple):
    """What was asked for at a door."""

    words: Sequence[str]
    environment: dict[str, str]
    directory: str
    streams: Sequence[int]


class Doors:
    """The doors of a fork server, in the server."""

    def __init__(self) -> None:
        self._open: dict[socket.socket, str] = {}

    def __iter__(self) -> Any:
        return iter(self._open)

    def open(self) -> str:
        """Open another one; return the script that asks there, for this user alone."""
        # A name in a folder, for those without one are each network's own.
        address = f"{mkdtemp(prefix='unhang-tests-')}/door"
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind(address)
        door.listen(128)
        self._open[door] = address
        return _SCRIPT.format(python=sys.executable, address=address)

    def close(self) -> None:
        """Leave nothing behind."""
        for address in self._open.values():
            shutil.rmtree(Path(address).parent, ignore_errors=True)


def take_order(caller: socket.socket) -> Order:
    """Fork for a caller. Returns in the fork, which is killed when the caller is; the process itself waits for it."""
    asking, user = caller_of(caller)
    if user != os.geteuid():
        os._exit(1)
    order, streams = receive(caller)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    have_children_beside(asking)
    pid = os.fork()
    if pid == 0:
        caller.close()
        return Order(*order, streams)
    for stream in streams:
        os.close(stream)
    handle = os.pidfd_open(pid)
    ready, _, _ = select.select([handle, caller], [], [])
    if handle not in ready:
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        send(caller, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)
