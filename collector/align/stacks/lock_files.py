"""Lock files that ranks poll: which ranks do, and what is known of the lock.

Who polls wakes many times a second and gets nowhere: its wakes are no progress.
"""

from datetime import UTC, datetime

from collector.align.stacks.frames_communication import frame_pattern
from collector.align.stacks.patterns import WaitsOn
from shared.wire.snapshot import PolledLock, RankSnapshot
from shared.wire.stacks import Stacks

_INNERMOST = 4
"""Frames among which the one that polls stands: a logger or the system call's wrapper may be below it."""


def polls_lock_file(look: RankSnapshot) -> bool:
    """Is the main thread, in this look, at a place that polls a lock file?"""
    stacks = look.stacks
    main = stacks.main if isinstance(stacks, Stacks) else None
    if not isinstance(stacks, Stacks) or main is None:
        return False
    frames = [stacks.frames[index] for index in main.frames[-_INNERMOST:]]
    rows = (frame_pattern(frame.function, frame.file, native=frame.native) for frame in frames)
    return any(row is not None and row.waits_on is WaitsOn.LOCK_FILE for row in rows)


def lock_in_words(lock: PolledLock) -> str:
    """Say which lock it is and who holds it, to stand after `waiting for`."""
    if lock.path is None:
        return "a lock file"
    if lock.holders:
        named = ", ".join(f"pid {one.pid}" + (f" ({one.name})" if one.name else "") for one in lock.holders[:4])
        return f"the lock file {lock.path}, which is held by {named}"
    if lock.abandoned:
        return f"the lock file {lock.path}, which nobody holds anymore{_since(lock.held_since)}"
    elsewhere = f": another node may ({lock.file_system or 'unknown file system'})" if lock.remote else ""
    return f"the lock file {lock.path}, which nobody visible on its node holds{elsewhere}"


def _since(seconds: float | None) -> str:
    try:
        return "" if seconds is None else f" (written {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC)"
    except (ValueError, OverflowError, OSError):
        return ""
