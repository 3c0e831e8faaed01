"""Opens files that a job names or holds, without being led anywhere the job itself could not go.

The agent may read every file of the machine; the job may not. So a path is walked component by component
without following links, the users who started the job must be allowed to enter each directory and to read the file
(on_behalf_of.py, file_access.py), and only plain files are opened: a FIFO would block, a device might do something.

A held descriptor has no path to walk: its process could open it again by /proc/self/fd, which asks the file alone.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agent.errors import Unavailable
from agent.proc.file_access import READ, SEARCH, Reader, permissions_of
from agent.proc.on_behalf_of import Readers
from agent.proc.procfs import ProcFs, reading
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.redaction.redact import redact

_MOST_COMPONENTS = 64


@contextmanager
def open_held(procfs: ProcFs, pid: int, fd: int, readers: Readers) -> Iterator[int]:
    """Open the plain file behind a descriptor that the process holds. Raises Unavailable or NotPermitted."""
    path, name = procfs.path(pid, f"fd/{fd}"), redact(procfs.link(pid, f"fd/{fd}"))
    with ExitStack() as opened:
        with reading(pid):
            file = _kept(_open(_kept(hold(path), opened), readers, name), opened)
        yield file


@contextmanager
def open_mapped(procfs: ProcFs, pid: int, start: int, end: int, path: str, readers: Readers) -> Iterator[int]:
    """Open the plain file that the process has mapped from `start` to `end`. Raises Gone, Unavailable or NotPermitted.

    The kernel leads to that very file, also one that has been deleted or lies among mounts that nobody else has, but
    asks for CAP_CHECKPOINT_RESTORE; without it the file is opened by its name, and may be another one by now.
    """
    linked = procfs.path(pid, f"map_files/{start:x}-{end:x}")
    with ExitStack() as opened:
        try:
            held = _kept(hold(linked), opened)
        except OSError:
            file = opened.enter_context(open_named(procfs, pid, path, readers))
        else:
            with reading(pid):
                file = _kept(_open(held, readers, path), opened)
        yield file


@contextmanager
def open_named(
    procfs: ProcFs, pid: int, path: str, readers: Readers, *, owners: frozenset[int] | None = None
) -> Iterator[int]:
    """Open a plain file by an absolute path as the process sees it, following no link.

    `owners`: nobody but these users can have written it, or Unavailable is raised. Anybody may put a file at a path
    that everybody knows; what is opened is the file that was asked about.
    """
    components = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or ".." in components or not 0 < len(components) <= _MOST_COMPONENTS:
        raise Unavailable(Reason.REFUSED, f"{path[:200]!r} is not a plain absolute path")
    with ExitStack() as opened:
        with reading(pid):
            folder = _kept(hold(procfs.path(pid, "root"), flags=os.O_DIRECTORY), opened)
            _require(readers, folder, SEARCH, "enter its root folder")
            for part in components[:-1]:
                folder = _kept(hold(part, flags=os.O_DIRECTORY | os.O_NOFOLLOW, folder=folder), opened)
                _require(readers, folder, SEARCH, f"enter {part!r}")
            held = _kept(hold(components[-1], flags=os.O_NOFOLLOW, folder=folder), opened)
            file = _kept(_open(held, readers, path), opened)
            if owners is not None:
                _require_owner(file, owners, path)
        yield file


def _require_owner(file: int, owners: frozenset[int], path: str) -> None:
    """Refuse what somebody else wrote, may write to, or has given a second name, which may be the one that we know."""
    found = os.fstat(file)
    # A group of the user's own has the user's number; with an access list, which a folder may give to each new file in
    # it, these bits are what the list grants to others at most.
    own_group = found.st_gid in (0, found.st_uid) and not permissions_of(file).entries
    others = found.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP)
    why = None
    if found.st_uid not in owners:
        why = f"belongs to user {found.st_uid}, and the rank to another"
    elif found.st_nlink != 1:
        why = "has several names (hard links), of which this may be anybody's"
    elif others:
        why = "may be written by other users"
    if why is not None:
        raise Unavailable(Reason.REFUSED, f"{path} {why}: it is not taken for the rank's")


def _kept(descriptor: int, opened: ExitStack) -> int:
    opened.callback(os.close, descriptor)
    return descriptor


def _open(held: int, readers: Readers, name: str) -> int:
    if not stat.S_ISREG(os.fstat(held).st_mode):
        raise Unavailable(Reason.REFUSED, f"{name} is not a plain file")
    _require(readers, held, READ, f"read {name}")
    return open_held_file(held)


def _require(readers: Readers, held: int, wanted: int, what: str) -> None:
    """Raise NotPermitted unless all of them may do it."""
    try:
        permissions = permissions_of(held)
    except NotPermitted as error:
        raise NotPermitted(f"it is unclear who may {what}: {error}") from error
    for reader in readers:
        if not reader.may(permissions, wanted):
            raise NotPermitted(f"{_named(reader)} may not {what}, and may have started the job")


def _named(reader: Reader) -> str:
    return "an unknown user" if reader.uid is None else f"user {reader.uid}"


def read_tail(opened: int, most: int) -> bytes:
    """Return the last `most` bytes of an open file; a line that is cut at the front is left out."""
    size = os.fstat(opened).st_size
    start = max(0, size - most)
    data = os.pread(opened, min(most, size), start)
    return data if start == 0 else data.partition(b"\n")[2]


_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NotPlain(OSError):
    """The path leads to something else than a plain file."""


def hold(path: str, *, flags: int = 0, folder: int | None = None) -> int:
    """Return a descriptor that names a file without opening it."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)


def open_held_file(held: int) -> int:
    """Open for reading what a descriptor of `hold` names. Raises NotPlain."""
    if not stat.S_ISREG(os.fstat(held).st_mode):
        raise NotPlain("not a plain file")
    return os.open(f"/proc/self/fd/{held}", _READ)
