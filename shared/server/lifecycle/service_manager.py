"""What a service tells systemd: that it serves, that its event loop still turns, and that it ends. sd_notify(3).

The socket and the time between two signs of life are in the environment, and nothing is told where they are not. Signs
of life come from the event loop: a loop that is stuck sends none, and systemd starts the service again (WatchdogSec=).
"""

import faulthandler
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress

_SIGNS_PER_TIMEOUT = 3
"""One may be late: the loop waits for the judge now and then."""
_LONGEST_PATH = 107
"""Of a UNIX socket: unix(7)."""


class ServiceManager:
    """The service manager of this process, if it has one that wants to be told."""

    def __init__(self, *, where: str | None = None, sign_seconds: float | None = None) -> None:
        """`where` is the socket's path, or `@` and its abstract name. `sign_seconds`: between two signs of life."""
        self._where = None if where is None else _address(where)
        self.sign_seconds = sign_seconds

    @classmethod
    def of_process(cls, environment: MutableMapping[str, str]) -> "ServiceManager":
        """Return the one that the environment names. What it says is taken out: it is not meant for helpers of ours."""
        where = environment.pop("NOTIFY_SOCKET", None)
        seconds = _watchdog_seconds(environment)
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            environment.pop(name, None)
        manager = cls(where=where, sign_seconds=None if seconds is None else seconds / _SIGNS_PER_TIMEOUT)
        if manager.is_there and manager.sign_seconds is not None:
            _show_stacks_when_aborted()
        return manager

    @property
    def is_there(self) -> bool:
        """Does anybody want to be told?"""
        return self._where is not None

    def serving(self) -> None:
        """Say that requests are answered from now on."""
        self._tell("READY=1")

    async def alive(self) -> None:
        """Say that the event loop turns; it calls this."""
        self._tell("WATCHDOG=1")

    def ending(self) -> None:
        """Say that the service is about to end as it was asked to."""
        self._tell("STOPPING=1")

    def _tell(self, what: str) -> None:
        if self._where is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
            sending.setblocking(False)  # a service does not wait for who watches it
            sending.sendto(what.encode(), self._where)


def _address(where: str) -> bytes | None:
    """Return the address of a socket as the kernel takes it; None for one that is none of UNIX (`vsock:`)."""
    if not where.startswith(("/", "@")) or not 1 < len(where.encode()) <= _LONGEST_PATH:
        return None
    return b"\0" + where[1:].encode() if where.startswith("@") else where.encode()


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return after how long without a sign of life this process is ended; None: it is not watched."""
    given, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return None  # meant for whoever started us
    is_number = given.isascii() and given.isdigit() and len(given) < 19
    return int(given) / 1e6 if is_number and int(given) else None


def _show_stacks_when_aborted() -> None:
    """Have the stacks of all threads in the journal: systemd ends a service whose loop is stuck by SIGABRT."""
    with suppress(OSError, ValueError, AttributeError):
        faulthandler.enable(sys.stderr, all_threads=True)
