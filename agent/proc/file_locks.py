"""Locks on files as the kernel lists them, in /proc/locks and /proc/PID/fdinfo: read without touching any file."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from agent.proc.procfs import ProcFs, read_bounded
from shared.wire.snapshot import Holder

_MOST_BYTES = 1024 * 1024
_MOST_HOLDERS = 8
# 12: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF        12: -> FLOCK  ADVISORY  WRITE 4243 08:01:131 0 EOF
# lock:	1: POSIX  ADVISORY  WRITE 4242 fe:00:131 1073741825 1073741825
_LOCK = re.compile(
    r"^(?:lock:\s)?(?P<number>\d{1,10}): {0,64}(?P<waits>-> )?(?P<kind>FLOCK|POSIX|OFDLCK|ACCESS|LEASE|DELEG) "
    r"[A-Z ]{1,32} (?P<mode>[A-Z]{1,8}) {1,8}(?P<pid>-?\d{1,10}) [\da-f]{1,8}:[\da-f]{1,8}:(?P<inode>\d{1,20}) "
    r"(?P<first>\d{1,20}) ",
    re.MULTILINE,
)
_OF_DATABASES = range(0x4000_0000, 0x4000_0200)
"""Bytes that SQLite locks and never writes: the lock-byte page of sqlite.org/fileformat2.html."""


class FileLock(NamedTuple):
    """One line of the kernel's."""

    number: int
    waits: bool
    kind: str
    """`FLOCK`, `POSIX`, `OFDLCK` (of an open file description), or what a file server takes."""
    exclusive: bool
    pid: int
    """0 or -1: a process that we cannot see, or an open file description, which has none."""
    inode: int
    first: int
    """The first byte that is locked."""

    @property
    def of_processes(self) -> bool:
        """Is it one that processes ask each other for, unlike leases, which file servers take?"""
        return self.kind in ("FLOCK", "POSIX", "OFDLCK")

    @property
    def of_database(self) -> bool:
        """Is it on a byte that SQLite locks in its databases?"""
        return self.kind != "FLOCK" and self.first in _OF_DATABASES


def parse_locks(table: str) -> list[FileLock]:
    """Read the lines of /proc/locks, or those of an fdinfo file that tell what is locked by it."""
    return [_lock(match) for match in _LOCK.finditer(table)]


def _lock(match: re.Match[str]) -> FileLock:
    return FileLock(
        number=int(match["number"]),
        waits=match["waits"] is not None,
        kind=match["kind"],
        exclusive=match["mode"] != "READ",
        pid=int(match["pid"]),
        inode=int(match["inode"]),
        first=int(match["first"]),
    )


def locks_of_machine(procfs: ProcFs) -> list[FileLock]:
    """Return all locks of processes that are seen from here, and those that have no process; none where not told."""
    try:
        return parse_locks(read_bounded(f"{procfs.root}/locks", _MOST_BYTES).decode(errors="replace"))
    except OSError:
        return []


def lock_holders(procfs: ProcFs, pid: int) -> tuple[Holder, ...]:
    """Return the processes that hold the locks that process `pid` is blocked for; often none."""
    pids = dict.fromkeys(holders_among(locks_of_machine(procfs), pid))
    return tuple(Holder(pid=holder, name=procfs.known_name(holder)) for holder in list(pids)[:_MOST_HOLDERS])


def holders_among(locks: Iterable[FileLock], pid: int) -> list[int]:
    """Return who holds those that `pid` waits for, as far as these have a process."""
    found = list(locks)
    waited = {lock.number for lock in found if lock.waits and lock.pid == pid}
    return [lock.pid for lock in found if not lock.waits and lock.number in waited and lock.pid > 0]
