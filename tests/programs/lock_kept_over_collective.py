"""The faulty rank joins a collective with a lock held, and the next one waits for that lock before it joins.

Which lock it is, the test says by `UNHANG_TEST_LOCK`; SQLite's is what it is otherwise. Where the test itself holds it,
it says in which directory by `UNHANG_TEST_LOCKED`, and the faulty rank alone wants it.
"""

import fcntl
import os
import sqlite3
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["communication"], "busy": [2, 3]}

HELD: list[object] = []
"""What keeps the lock: nothing of it is to be collected as garbage."""


def directory() -> Path:
    """The directory that all who want the lock share."""
    return Path(os.environ.get("UNHANG_TEST_LOCKED", f"{tempfile.gettempdir()}/shared-{os.environ['MASTER_PORT']}"))


def is_first() -> bool:
    """Is this the rank that gets the lock?"""
    return rig.launched_as()[0] == rig.FAULTY_RANK


def database() -> sqlite3.Connection:
    """Open the database in which all ranks note their metrics."""
    opened = sqlite3.connect(directory() / "metrics.db", timeout=1e6, isolation_level=None)
    HELD.append(opened)
    return opened


def write_metrics() -> None:
    """Begin to write."""
    database().execute("BEGIN IMMEDIATE")


def write_metrics_ahead() -> None:
    """The same with a log that is written ahead, whose locks are on another file."""
    opened = database()
    opened.execute("PRAGMA journal_mode = wal")
    opened.execute("BEGIN IMMEDIATE")


def have_it_open() -> None:
    """Write; the other rank has the database open and sleeps for a reason of its own."""
    opened = database()
    if is_first():
        opened.execute("BEGIN IMMEDIATE")
    else:
        opened.execute("PRAGMA user_version").fetchone()
        time.sleep(rig.NEVER)


def lock_file() -> int:
    """Open the file that is locked by system calls."""
    return os.open(directory() / "cache.lock", os.O_CREAT | os.O_RDWR)


def lock_posix() -> None:
    """Lock as `lockf` does: a lock of the process, waited for in the kernel."""
    fcntl.lockf(lock_file(), fcntl.LOCK_EX)


def lock_description() -> None:
    """Take a lock of the open file description, which has no process in the kernel's table."""
    fcntl.fcntl(lock_file(), fcntl.F_OFD_SETLKW, struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def lock_with_filelock() -> None:
    """Lock with filelock, as Hugging Face's libraries do."""
    import filelock

    HELD.append(lock := filelock.FileLock(directory() / "cache.lock"))
    lock.acquire()


LOCKS: dict[str, Callable[[], None]] = {
    "sqlite": write_metrics,
    "sqlite_wal": write_metrics_ahead,
    "sqlite_open": have_it_open,
    "posix": lock_posix,
    "description": lock_description,
    "filelock": lock_with_filelock,
}


def main() -> None:
    """Train; at the faulty step two ranks want one lock, one after the other."""
    place, take_lock = rig.start(), LOCKS[os.environ.get("UNHANG_TEST_LOCK", "sqlite")]
    alone = "UNHANG_TEST_LOCKED" in os.environ
    directory().mkdir(exist_ok=True)
    taken = directory() / "taken"

    def in_turn() -> None:
        while not (alone or place.is_faulty or taken.exists()):
            time.sleep(0.01)
        take_lock()
        taken.touch()

    rig.train(place, in_turn, astray=place.is_faulty or (place.rank == rig.FAULTY_RANK + 1 and not alone))


if __name__ == "__main__":
    main()
