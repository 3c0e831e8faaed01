"""The audit log: one JSON line for each inspection and for each refusal, saying who asked, for what, what came of it.

A refused client can cause as many refusals as the network carries. So the lines per minute are limited, per client and
in total; further refusals are counted and reported in one line afterwards.
"""

import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from shared.errors import InvalidSettings

_log = logging.getLogger("unhang.audit")

_MODE = 0o640
_LONGEST_TEXT = 300
_WINDOW_SECONDS = 60.0
_MOST_LINES_OF_ONE = 10
_MOST_LINES = 100
_MOST_CLIENTS = 1000
"""Most clients that are distinguished within a window; an attacker may have many addresses."""


class Refused(StrEnum):
    """Why a client was refused."""

    ADDRESS = "address_not_allowed"
    HANDSHAKE = "tls_handshake_failed"
    NAME = "certificate_name_not_allowed"
    HOST = "host_not_allowed"
    CROSS_SITE = "cross_site_request"
    NO_TOKEN = "no_token"
    WRONG_TOKEN = "wrong_token"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    TOO_SLOW = "too_slow"
    TOO_MANY = "too_many_connections"
    OWN_TROUBLE = "tokens_unreadable"


class Refusal(NamedTuple):
    """Who got nothing, and why. `what` is the request, where it came so far."""

    client: str
    reason: Refused
    what: str = ""
    detail: str = ""


class AuditLog:
    """Appends lines to a file, which it creates again after a rotation.

    Without a file, inspections are not logged, and refusals go to the log of the service.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raise InvalidSettings where the file cannot be written."""
        self._path = path
        self._lock = threading.Lock()
        self._refusals = _Window(clock)
        self._by_reason: Counter[Refused] = Counter()
        if path is not None:
            self._append(path, b"")

    def write(self, action: str, *, client: str, **details: object) -> None:
        """Write one line. Raises InvalidSettings where that fails: what cannot be written down is not answered."""
        if self._path is None:
            return
        with self._lock:
            self._append(self._path, *self._overdue(), _line(action, client=client, **details))

    def refused(self, refusal: Refusal) -> None:
        """Log a refusal, or count it. Never raises: a full disk lets no one in."""
        with self._lock:
            self._by_reason[refusal.reason] += 1
            lines = self._overdue()
            if self._refusals.admits(refusal.client):
                cut = {name: text[:_LONGEST_TEXT] for name, text in refusal._asdict().items()}
                lines += (_line("refused", **cut),)
            self._tell(lines)

    def refusals(self) -> Counter[Refused]:
        """Return how many were refused since the start, by reason."""
        with self._lock:
            return self._by_reason.copy()

    def close(self) -> None:
        """Tell how many refusals were counted and not written yet."""
        with self._lock:
            self._tell(self._overdue(at_once=True))

    def _overdue(self, *, at_once: bool = False) -> tuple[bytes, ...]:
        unwritten = self._refusals.unwritten(at_once=at_once)
        if not unwritten:
            return ()
        return (_line("refused", reason="many", more=unwritten, seconds=int(_WINDOW_SECONDS)),)

    def _tell(self, lines: tuple[bytes, ...]) -> None:
        if self._path is None:
            for line in lines:
                _log.warning("%s", line.decode().rstrip())
            return
        try:
            self._append(self._path, *lines)
        except InvalidSettings as error:
            _log.error("%s", error)

    def _append(self, path: Path, *lines: bytes) -> None:
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            opened = os.open(path, flags, _MODE)
            try:
                os.write(opened, b"".join(lines))
            finally:
                os.close(opened)
        except OSError as error:
            raise InvalidSettings(
                f"the audit log {path} cannot be written: {error.strerror}",
                advice="name a file in a directory that this service may write to",
            ) from error


def _line(action: str, **details: object) -> bytes:
    """Return one line in ASCII: names come from jobs and strangers, and a log is read on a terminal."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"at": at, "action": action, **details}).encode("ascii") + b"\n"


class _Window:
    """Counts lines within a minute, for each client and for all."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self._by_client: dict[str, int] = {}
        self._written = self._unwritten = 0

    def admits(self, client: str) -> bool:
        """Count one refusal; may it have a line of its own?"""
        of_this = self._by_client.get(client, 0)
        full = of_this >= _MOST_LINES_OF_ONE or self._written >= _MOST_LINES
        if full or (of_this == 0 and len(self._by_client) >= _MOST_CLIENTS):
            self._unwritten += 1
            return False
        self._by_client[client] = of_this + 1
        self._written += 1
        return True

    def unwritten(self, *, at_once: bool) -> int:
        """Begin a new window if this one is over, and return what the last one left unwritten."""
        if not at_once and self._clock() - self._begun < _WINDOW_SECONDS:
            return 0
        left, self._unwritten, self._written = self._unwritten, 0, 0
        self._by_client.clear()
        self._begun = self._clock()
        return left
