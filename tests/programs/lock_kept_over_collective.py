"""The faulty rank joins a collective with a lock held, and the next one waits for that lock before it joins.

Which lock it is, the test says by `UNHANG_TEST_LOCK`; SQLite's is what it is otherwise.
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

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["communication"], "busy": [3]}

HELD: list[object] = []
"""What keeps the lock: nothing of it is to be collected as garbage."""


def directory() -> Path:
    """A directory that all ranks of the job share."""
    return Path(tempfile.gettempdir(), f"shared-{os.environ['MASTER_PORT']}")


def write_metrics(journal: str = "delete") -> None:
    """Begin to write to the database in which all ranks note their metrics."""
    database = sqlite3.connect(directory() / "metrics.db", timeout=rig.NEVER / 1e3, isolation_level=None)
    HELD.append(database)
    database.execute(f"PRAGMA journal_mode = {journal}")
    database.execute("BEGIN IMMEDIATE")


def write_metrics_ahead() -> None:
    """The same with a log that is written ahead, whose locks are on another file."""
    write_metrics("wal")


def read_metrics() -> None:
    """Keep reading where another rank cannot commit before that."""
    database = sqlite3.connect(directory() / "metrics.db", timeout=rig.NEVER / 1e3, isolation_level=None)
    HELD.append(database)
    if not HELD[1:] and rig.launched_as()[0] == rig.FAULTY_RANK:
        database.execute("CREATE TABLE losses AS SELECT 1 AS loss UNION SELECT 2")
        HELD.append(reader := database.execute("SELECT loss FROM losses"))
        reader.fetchone()
    else:
        database.execute("DELETE FROM losses")


def opened() -> int:
    """Open the file that is locked by system calls."""
    return os.open(directory() / "cache.lock", os.O_CREAT | os.O_RDWR)


def lock_posix() -> None:
    """Lock as `lockf` does: a lock of the process, waited for in the kernel."""
    fcntl.lockf(opened(), fcntl.LOCK_EX)


def lock_whole() -> None:
    """Lock as `flock` does, waited for in the kernel."""
    fcntl.flock(opened(), fcntl.LOCK_EX)


def lock_description() -> None:
    """Take a lock of the open file description, which has no process in the kernel's table."""
    fcntl.fcntl(opened(), fcntl.F_OFD_SETLKW, struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def poll_by_hand() -> None:
    """Ask again and again, as programs do that have no library for it."""
    file = opened()
    while True:
        try:
            return fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)


def lock_with_filelock() -> None:
    """Lock with filelock, as Hugging Face's libraries do."""
    import filelock

    HELD.append(lock := filelock.FileLock(directory() / "cache.lock"))
    lock.acquire()


def lock_softly() -> None:
    """Lock by making a file."""
    import filelock

    HELD.append(lock := filelock.SoftFileLock(directory() / "cache.lock"))
    lock.acquire()


def lock_with_portalocker() -> None:
    """Lock with portalocker, which keeps the file open while it polls."""
    import portalocker

    HELD.append(lock := portalocker.Lock(directory() / "cache.lock", timeout=rig.NEVER))
    lock.acquire()


def lock_with_fasteners() -> None:
    """Lock with fasteners, which polls for a POSIX lock."""
    import fasteners

    HELD.append(lock := fasteners.InterProcessLock(directory() / "cache.lock"))
    lock.acquire()


LOCKS: dict[str, Callable[[], None]] = {
    "sqlite": write_metrics,
    "sqlite_wal": write_metrics_ahead,
    "sqlite_reader": read_metrics,
    "posix": lock_posix,
    "flock": lock_whole,
    "ofd": lock_description,
    "by_hand": poll_by_hand,
    "filelock": lock_with_filelock,
    "soft": lock_softly,
    "portalocker": lock_with_portalocker,
    "fasteners": lock_with_fasteners,
}


def take_lock() -> None:
    """Take the lock; the rank after the faulty one waits until that has it."""
    directory().mkdir(exist_ok=True)
    LOCKS[os.environ.get("UNHANG_TEST_LOCK", "sqlite")]()


def main() -> None:
    """Train; at the faulty step two ranks want one lock."""
    place = rig.start()
    taken = Path(directory(), "taken")

    def in_turn() -> None:
        if place.is_faulty:
            take_lock()
            taken.touch()
            return
        while not taken.exists():
            time.sleep(0.01)
        take_lock()

    rig.train(place, in_turn, astray=place.rank in (rig.FAULTY_RANK, rig.FAULTY_RANK + 1))


if __name__ == "__main__":
    main()
