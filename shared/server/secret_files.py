"""Files that hold secrets: tokens and private keys. One that others may read or change is no secret, and is refused."""

import os
import stat
from pathlib import Path

from shared.errors import InvalidSettings
from shared.shell_commands import copyable

Stamp = tuple[int, int, int, int]
"""What changes when a file does: its times of change, its inode and its size."""

_LARGEST_FILE = 65_536
_OTHERS = stat.S_IRWXO | stat.S_IWGRP


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file as it is now. Raises OSError."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


def read_secret(path: Path, what: str) -> bytes:
    """Return what is in a file of secrets. Raises InvalidSettings where it cannot be read or is open to others.

    A group may read it: the service's own, as `install -m 0640 -g unhang` makes it.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidSettings(
            f"{what} {path} cannot be read: {error.strerror}",
            advice="name a file that exists and that this service may read",
        ) from error
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidSettings(f"{what} {path} is not a plain file", advice="name a plain file")
        _check_private(found, path, what)
        return os.read(opened, _LARGEST_FILE)
    finally:
        os.close(opened)


def _check_private(found: os.stat_result, path: Path, what: str) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise InvalidSettings(
            f"{what} {path} belongs to uid {found.st_uid}, who could change it",
            advice=f"make root or the user of this service its owner: {_command(path, 'chown', 'root')}",
        )
    if found.st_mode & _OTHERS:
        raise InvalidSettings(
            f"{what} {path} is accessible to others (mode {stat.S_IMODE(found.st_mode):04o})",
            advice=f"restrict it: {_command(path, 'chmod', '0640')}, or 0600",
        )


def _command(path: Path, *words: str) -> str:
    return copyable(*words, operands=(str(path),)) or f"{' '.join(words)} FILE"
