"""Who else may write what SQLite reads: the store, the files beside it, and their directory.

SQLite trusts its files. A user who can write one of them, or put a `-wal` beside the store, controls what the collector
has diagnosed, and which agents have registered: to those it sends its token.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from shared.errors import InvalidSettings

_BESIDE = ("", "-wal", "-shm", "-journal")
_ADVICE = "keep the store in a directory of its own, mode 0700, that belongs to the user of this service"


def refuse_shared(file: Path) -> None:
    """Raise InvalidSettings where others may write the store, or put another one in its place.

    Our own group may write: volumes of Kubernetes are made so (fsGroup).
    """
    for link in _links(file):
        _check_owner(link, os.lstat(link))
    real = file.resolve()
    for each in (real.with_name(real.name + suffix) for suffix in _BESIDE):
        _check_file(each)
    _check_directory(real.parent)
    for above in real.parent.parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _refusal(above, f"is open to others (mode {stat.S_IMODE(mode):04o})")


def _links(file: Path) -> Iterator[Path]:
    """Return the links on the way to the file; a chain of them is followed, a circle not endlessly."""
    waiting, seen = [file.absolute()], set[Path]()
    while waiting:
        path = waiting.pop()
        for each in (path, *path.parents):
            if each not in seen and each.is_symlink():
                seen.add(each)
                yield each
                waiting.append(each.parent / os.readlink(each))


def _check_directory(directory: Path) -> None:
    found = directory.stat()
    _check_owner(directory, found)
    _check_mode(directory, found)


def _check_file(file: Path) -> None:
    try:
        found = os.lstat(file)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(file, "is not a plain file")
    _check_owner(file, found)
    _check_mode(file, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise _refusal(path, f"belongs to uid {found.st_uid}, who could change it")


def _check_mode(path: Path, found: os.stat_result) -> None:
    foreign_group = found.st_mode & stat.S_IWGRP and found.st_gid != os.getegid()
    if found.st_mode & stat.S_IWOTH or foreign_group:
        raise _refusal(path, f"is open to others (mode {stat.S_IMODE(found.st_mode):04o})")


def _refusal(path: Path, why: str) -> InvalidSettings:
    return InvalidSettings(f"the store cannot be used: {path} {why}", advice=_ADVICE)
