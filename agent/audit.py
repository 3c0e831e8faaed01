"""The audit log: one JSON line for each inspection, saying who asked, what was looked at and what came of it."""

import json
import os
import threading
import time
from pathlib import Path

from shared.errors import InvalidSettings

_MODE = 0o640


class AuditLog:
    """Appends lines to a file; without a file it does nothing. A file that was rotated away is made anew."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            self._append(path, b"")

    def write(self, action: str, *, client: str, **details: object) -> None:
        """Write one line."""
        if self._path is None:
            return
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"at": at, "action": action, "client": client, **details}, ensure_ascii=False)
        with self._lock:
            self._append(self._path, line.encode() + b"\n")

    def _append(self, path: Path, data: bytes) -> None:
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            opened = os.open(path, flags, _MODE)
            try:
                os.write(opened, data)
            finally:
                os.close(opened)
        except OSError as error:
            raise InvalidSettings(
                f"the audit log {path} cannot be written: {error.strerror}",
                advice="name a file in a directory that the agent may write to",
            ) from error
