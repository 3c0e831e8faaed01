"""One fork server of a kind for all workers of a run of tests: what it imports is imported once, not by each of them.

Whoever binds the server's address starts it, and hands the door over that others knock at while it still imports. It
ends with its last client. Runs that are beside each other have servers of their own, as forks have their server's
niceness.
"""

import atexit
import errno
import os
import select
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.build.processes.parcels import caller_of, line, send

_REPOSITORY = Path(__file__).resolve().parents[3]


def connect(module: str, environment: Mapping[str, str]) -> socket.socket:
    """Return a line to the server that `python -m module DOOR` runs; it gets this environment where it has to start."""
    ours = line()
    while True:
        try:
            ours.connect(_address(module))
        except ConnectionRefusedError:
            _start(module, environment)
        else:
            atexit.register(ours.close)
            return ours


@cache
def _address(module: str) -> str:
    """Of no file, so that nothing is left behind; the parent is the same for all workers of a run, and for no other."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    return f"\0unhang-tests-{run}-{os.getppid()}-{module.rpartition('.')[2]}"


def _start(module: str, environment: Mapping[str, str]) -> None:
    with line() as door:
        try:
            door.bind(_address(module))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            time.sleep(0.01)  # another worker is between these two steps
            return
        door.listen(128)
        process = subprocess.Popen(
            (sys.executable, "-m", module, str(door.fileno())),
            cwd=_REPOSITORY,
            env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
            pass_fds=[door.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    # Not waited for at our end: others may still want it then.
    threading.Thread(target=process.wait, daemon=True).start()


class Clients:
    """The lines to all clients of a server, in the server."""

    def __init__(self, door: socket.socket) -> None:
        """`door`: where they come in."""
        self._door = door
        self._lines: list[socket.socket] = []

    def next(self, others: Iterable[socket.socket] = ()) -> socket.socket:
        """Wait for one of them who says something, or one of `others`. Raises EOFError when the last one is gone."""
        waiting = list(others)
        while True:
            (first, *_), _, _ = select.select([self._door, *self._lines, *waiting], [], [])
            if first is self._door:
                self._admit()
            elif first in waiting or _says_something(first):
                return first
            else:
                first.close()
                self._lines.remove(first)
                if not self._lines:
                    raise EOFError

    def _admit(self) -> None:
        """Let this user in alone: an address that is no file has no permissions."""
        client, _ = self._door.accept()
        if caller_of(client)[1] == os.geteuid():
            self._lines.append(client)
        else:
            client.close()

    def close(self) -> None:
        """In a fork, which is nobody's server."""
        for each in (self._door, *self._lines):
            each.close()


def answer(client: socket.socket, value: Any, files: Sequence[int] = ()) -> None:
    """Send something, unless the client was killed."""
    with suppress(BrokenPipeError, ConnectionResetError):
        send(client, value, files)


def _says_something(client: socket.socket) -> bool:
    """Has it said something, rather than gone?"""
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except ConnectionResetError:
        return False
