"""The file that a rank has open and another process has locked: a part of what the source `stacks` fills in.

A rank that is blocked for a lock names the file in its system call. One that polls sleeps, and often in no frame that
tells what for: SQLite polls in C, and programs do by hand. Whether it waits for such a file at all, its stack tells.

1. Which of its files others have locked: by /proc/locks and fdinfo, without touching a file.
2. Who has: those who have the same file open, and show that it is locked by them. A lock of an open file description
   has no process in the kernel's table, and one of a process that we cannot see has none, either.
3. They hold the rank up where they have locked it for themselves alone, or where the rank has, or is blocked: it may
   wait for all who read to end.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.find.choose_ranks import Rank
from agent.proc.file_locks import FileLock, locks_of_machine
from agent.proc.mounts import is_remote
from agent.proc.sleep_ends import SLEEPS
from agent.sources.fds import Descriptor, describe
from agent.sources.look_context import LookContext
from agent.sources.process import holders_of
from agent.tools.syscall_names import read_syscall, takes_lock
from shared.errors import NotPermitted
from shared.redaction.redact import redact
from shared.wire.snapshot import PolledLock

_SECONDS = 1.0
_MOST_FILES = 1024
_MOST_TAKEN = 4
"""Of its files that others have locked: for each, all processes are looked through."""
_INODE = re.compile(r"^ino:\s*(\d{1,20})$", re.MULTILINE)


def contended_file(rank: Rank, context: LookContext) -> PolledLock | None:
    """Return the file that others have locked, as the rank's main thread sleeps or is blocked; often None."""
    with suppress(Gone, NotPermitted, ValueError, IndexError):
        call = read_syscall(context.procfs, rank.stat.pid)
        if call is not None and takes_lock(call.name):
            own = describe(context, rank.stat.pid, call.arguments[0] & 0xFFFF_FFFF)
            return None if own is None or own.kind != "file" else _lock(own, rank, context, blocked=True)
        if call is not None and (call.name in SLEEPS or call.name == "restart_syscall"):
            taken = _locked_by_others(rank.stat.pid, context)[:_MOST_TAKEN]
            return next((lock for own in taken if (lock := _lock(own, rank, context)).holders), None)
    return None


def _locked_by_others(pid: int, context: LookContext) -> list[Descriptor]:  # 1
    """Return its files that others have locked, those first that are SQLite's."""
    taken = [lock for lock in locks_of_machine(context.procfs) if _may_hold_up(lock, pid)]
    of_databases = {lock.inode for lock in taken if lock.of_database}
    found = []
    for fd in context.procfs.fds(pid)[:_MOST_FILES] if taken else ():
        inode = _inode(context, pid, fd)
        if any(lock.inode == inode for lock in taken):
            own = describe(context, pid, fd)
            database = inode in of_databases or (own is not None and own.target.endswith("-shm"))
            found.extend([(not database, fd, own)] if own is not None and own.kind == "file" else [])
    return [own for _, _, own in sorted(found, key=lambda each: each[:2])]


def _may_hold_up(lock: FileLock, pid: int) -> bool:
    return lock.of_processes and not lock.waits and lock.pid != pid


def _inode(context: LookContext, pid: int, fd: int) -> int | None:
    """Return the number of a file, which Linux tells since 5.14 without asking the file."""
    with suppress(Gone, NotPermitted, OSError):
        told = _INODE.search(context.procfs.text(pid, f"fdinfo/{fd}", most=4096))
        if told is not None:
            return int(told[1])
        own = describe(context, pid, fd)
        if own is not None and own.kind == "file" and not is_remote(own.file_system):
            return os.stat(context.procfs.path(pid, f"fd/{fd}")).st_ino
    return None


def _lock(own: Descriptor, rank: Rank, context: LookContext, *, blocked: bool = False) -> PolledLock:
    found = dict(_locked_alike(own, rank.stat.pid, context))
    alone = {pid: locks for pid, locks in found.items() if any(lock.exclusive for lock in locks)}
    waits_for_readers = blocked or any(lock.exclusive for lock in own.locks)
    holders = alone or (found if waits_for_readers else {})  # 3
    return PolledLock(
        path=redact(own.target),
        file_system=own.file_system,
        remote=is_remote(own.file_system),
        holders=holders_of(context.procfs, holders, rank.stat.pid),
        on_open_file=True,
    )


def _locked_alike(own: Descriptor, pid: int, context: LookContext) -> Iterator[tuple[int, list[FileLock]]]:  # 2
    """Iterate over the other processes that have locked the same file."""
    about = None
    with suppress(OSError):
        about = None if is_remote(own.file_system) else os.stat(context.procfs.path(pid, f"fd/{own.fd}"))
    for other, opened in openers(context, own.target, pid).found.items():
        for theirs in opened:
            locks = _of_others(theirs.locks, own.locks)
            alike = theirs.file_system == own.file_system or not (about is None or is_remote(theirs.file_system))
            if locks and alike and is_same_file(context, other, theirs, own.target, about):
                yield other, locks
                break


def _of_others(locks: Iterable[FileLock], own: Iterable[FileLock]) -> list[FileLock]:
    """Leave out what a child has inherited: two cannot both have locked the same for themselves alone."""
    ours = {(lock.kind, lock.first) for lock in own if lock.exclusive}
    return [lock for lock in locks if lock.of_processes and not (lock.exclusive and (lock.kind, lock.first) in ours)]


class Openers(NamedTuple):
    """Other processes that have a file of some name open, each with those descriptors."""

    found: dict[int, list[Descriptor]]
    hidden: tuple[int, ...]
    """Processes whose descriptors may not be seen."""
    in_time: bool
    """Were all processes looked through?"""


def openers(context: LookContext, path: str, own: int) -> Openers:
    """Look through what all processes but `own` have open, as far as one second reaches.

    By name: in another container the same file may have another path.
    """
    found: dict[int, list[Descriptor]] = {}
    hidden: list[int] = []
    until, name = time.monotonic() + _SECONDS, os.path.basename(path)
    for pid in context.procfs.pids():
        if time.monotonic() > until:
            return Openers(found, tuple(hidden), in_time=False)
        try:
            opened = [] if pid == own else [_described(context, pid, fd, name) for fd in context.procfs.fds(pid)]
        except NotPermitted:
            hidden.append(pid)
        except Gone:
            continue
        else:
            found[pid] = [each for each in opened if each is not None]
    return Openers(found, tuple(hidden), in_time=True)


def _described(context: LookContext, pid: int, fd: int, name: str) -> Descriptor | None:
    with suppress(Gone):
        if os.path.basename(context.procfs.link(pid, f"fd/{fd}")) == name:
            return describe(context, pid, fd)
    return None


def is_same_file(context: LookContext, pid: int, opened: Descriptor, path: str, about: os.stat_result | None) -> bool:
    """Does a descriptor lead to that file? `about` it: None where it lies on another machine, which is not asked."""
    if about is None or is_remote(opened.file_system):
        return opened.target == path
    with suppress(OSError):
        return os.path.samestat(os.stat(context.procfs.path(pid, f"fd/{opened.fd}")), about)
    return False
