"""Locks that ranks wait for, by polling or in the kernel: which ranks do, and what is known of the lock.

Who polls wakes many times a second and gets nowhere: its wakes are no progress.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeGuard

from collector.align.stacks.tables.match_frames import frame_pattern
from collector.align.stacks.tables.row_types import WaitsOn
from shared.wire.snapshot import Holder, PolledLock, Process, RankSnapshot
from shared.wire.stacks import Stacks

_INNERMOST = 4
"""Frames among which the one that polls stands: a logger or the system call's wrapper may be below it."""
_INNERMOST_NATIVE = 16
"""The same with native frames: SQLite sleeps some frames below the one that tells it."""
_LONGEST_COMMAND = 100


def polls_lock_file(look: RankSnapshot) -> bool:
    """Is the main thread, in this look, at a place that polls a lock file?"""
    return _is_at(WaitsOn.LOCK_FILE, look, _INNERMOST)


def polls_database(looks: Sequence[RankSnapshot]) -> bool:
    """Was the main thread seen in SQLite, and asleep in each look while others had locked one of its files?"""
    paths = {look.polled_lock.path if is_contended(look.polled_lock) else None for look in looks}
    one_lock = len(paths) == 1 and None not in paths
    return one_lock and any(_is_at(WaitsOn.DATABASE, look, _INNERMOST_NATIVE) for look in looks)


def is_contended(lock: PolledLock | None) -> TypeGuard[PolledLock]:
    """Has the rank a file open that others have locked?"""
    return lock is not None and lock.on_open_file and bool(lock.holders)


def _is_at(place: WaitsOn, look: RankSnapshot, innermost: int) -> bool:
    stacks = look.stacks
    main = stacks.main if isinstance(stacks, Stacks) else None
    if not isinstance(stacks, Stacks) or main is None:
        return False
    frames = [stacks.frames[index] for index in main.frames[-innermost:]]
    rows = (frame_pattern(frame.function, frame.file, native=frame.native) for frame in frames)
    return any(row is not None and row.waits_on is place for row in rows)


def lock_of(look: RankSnapshot) -> PolledLock | None:
    """Return the lock that the rank may wait for; from an older agent, the one that its system call waits for."""
    process = look.process
    if look.polled_lock is not None or not isinstance(process, Process) or not process.lock_holders:
        return look.polled_lock
    syscall = process.syscall
    return PolledLock(
        path=None if syscall is None else syscall.target,
        file_system=None if syscall is None else syscall.file_system,
        holders=process.lock_holders,
        on_open_file=True,
    )


def lock_in_words(lock: PolledLock) -> str:
    """Say which lock it is and who holds it, to stand after `waiting for`."""
    if lock.path is None:
        return "a lock file"
    name = name_of_lock(lock)
    if lock.holders:
        return f"{name}, which is held by {', '.join(f'pid {holder_in_words(each)}' for each in lock.holders[:4])}"
    if lock.abandoned:
        return f"{name}, which nobody holds anymore{_since(lock.held_since)}"
    elsewhere = f": another node may ({lock.file_system or 'unknown file system'})" if lock.remote else ""
    return f"{name}, which nobody visible on its node holds{elsewhere}"


def name_of_lock(lock: PolledLock) -> str:
    """Say which lock it is, not who holds it."""
    return f"the lock on {lock.path}" if lock.on_open_file else f"the lock file {lock.path}"


def holder_in_words(holder: Holder) -> str:
    """Name a process by its id and command line."""
    told = holder.command[:_LONGEST_COMMAND] or holder.name
    return f"{holder.pid} ({told})" if told else str(holder.pid)


def _since(seconds: float | None) -> str:
    try:
        return "" if seconds is None else f" (written {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC)"
    except (ValueError, OverflowError, OSError):
        return ""
