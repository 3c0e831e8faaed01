"""Opens files that a job names or holds, without being led anywhere the job itself could not go.

The agent may read every file of the machine; the job may not. So a path is walked component by component
without following links, the inspected process must have been able to read the file itself, and only plain
files are opened: a FIFO would block, a device might do something.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from agent.errors import Unavailable
from agent.plain_files import hold, open_held_file
from agent.procfs import ProcFs, reading
from shared.errors import NotPermitted
from shared.missing import Reason

_MOST_COMPONENTS = 64


class Reader(NamedTuple):
    """On whose behalf files are read: the user and groups of the inspected process."""

    uid: int
    groups: frozenset[int]

    def may(self, found: os.stat_result, wanted: int) -> bool:
        """Do the mode bits grant `wanted` (4 read, 1 search)? Access lists are not asked: then the answer is no."""
        if self.uid == 0:
            return True
        if found.st_uid == self.uid:
            return bool(found.st_mode >> 6 & wanted)
        shift = 3 if found.st_gid in self.groups else 0
        return bool(found.st_mode >> shift & wanted)


def reader_of(procfs: ProcFs, pid: int) -> Reader:
    """Return on whose behalf we read files of process `pid`."""
    status = procfs.fields(pid, "status")
    try:
        groups = {int(group) for group in status.get("Groups", "").split()} | {int(status["Gid"].split()[3])}
        return Reader(int(status["Uid"].split()[3]), frozenset(groups))
    except (KeyError, IndexError, ValueError) as error:
        raise NotPermitted(f"process {pid} does not tell whose it is") from error


@contextmanager
def open_held(procfs: ProcFs, pid: int, fd: int, reader: Reader) -> Iterator[int]:
    """Open the plain file behind a descriptor that the process holds. Raises Unavailable or NotPermitted."""
    path = procfs.path(pid, f"fd/{fd}")
    with ExitStack() as opened:
        with reading(pid):
            file = _kept(_open(_kept(hold(path), opened), reader, path), opened)
        yield file


@contextmanager
def open_named(procfs: ProcFs, pid: int, path: str, reader: Reader) -> Iterator[int]:
    """Open a plain file by an absolute path as the process sees it, following no link."""
    components = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or ".." in components or not 0 < len(components) <= _MOST_COMPONENTS:
        raise Unavailable(Reason.REFUSED, f"{path[:200]!r} is not a plain absolute path")
    with ExitStack() as opened:
        with reading(pid):
            folder = _kept(hold(procfs.path(pid, "root"), flags=os.O_DIRECTORY), opened)
            for part in components[:-1]:
                folder = _kept(hold(part, flags=os.O_DIRECTORY | os.O_NOFOLLOW, folder=folder), opened)
                if not reader.may(os.fstat(folder), 1):
                    raise NotPermitted(f"the process itself may not enter {part!r}")
            held = _kept(hold(components[-1], flags=os.O_NOFOLLOW, folder=folder), opened)
            file = _kept(_open(held, reader, path), opened)
        yield file


def _kept(descriptor: int, opened: ExitStack) -> int:
    opened.callback(os.close, descriptor)
    return descriptor


def _open(held: int, reader: Reader, name: str) -> int:
    found = os.fstat(held)
    if not stat.S_ISREG(found.st_mode):
        raise Unavailable(Reason.REFUSED, f"{name} is not a plain file")
    if not reader.may(found, 4):
        raise NotPermitted(f"the process itself may not read {name}")
    return open_held_file(held)


def read_tail(opened: int, most: int) -> bytes:
    """Return the last `most` bytes of an open file; a line that is cut at the front is left out."""
    size = os.fstat(opened).st_size
    start = max(0, size - most)
    data = os.pread(opened, min(most, size), start)
    return data if start == 0 else data.partition(b"\n")[2]
