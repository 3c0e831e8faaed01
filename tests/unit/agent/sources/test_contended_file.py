"""Files that real processes have open and others have locked: which one, and who has."""

import fcntl
import os
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.proc.procfs import ProcFs
from agent.sources.contended_file import contended_file
from agent.sources.look_context import LookContext
from shared.wire.snapshot import PolledLock
from tests.build.processes.looking import rank_of
from tests.build.processes.processes import READY, SLEEP, running, until

pytestmark = pytest.mark.ptrace

OWN = fcntl.F_OFD_SETLKW
DESCRIPTION = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)

SLEEPS = "opened = open({path!r}, 'r+')\n" + READY + "time.sleep(600)\n"
BLOCKS = "import fcntl, struct\nopened = open({path!r}, 'r+')\n" + READY + "{call}\n"
WRITES = (
    "import sqlite3\nopened = sqlite3.connect({path!r}, timeout=600, isolation_level=None)\n"
    "opened.execute('PRAGMA user_version').fetchone()\n" + READY + "opened.execute({statement!r})\n"
)


def look(pid: int) -> PolledLock | None:
    """Look at a process as the source of stacks does."""
    return contended_file(rank_of(pid), LookContext(ProcFs(), "here"))


@contextmanager
def contended(program: str) -> Iterator[PolledLock]:
    """Run a program until others are seen to have locked a file of its own."""
    with running(program) as process:
        found = until(lambda: look(process.pid), lambda lock: lock is not None and bool(lock.holders))
        assert found is not None
        yield found


def until_asleep(pid: int) -> None:
    """Wait until its main thread sleeps by the clock."""
    until(lambda: ProcFs().text(pid, "wchan"), lambda wchan: "nanosleep" in wchan or "select" in wchan)


def pids(lock: PolledLock) -> list[int]:
    """Who holds it."""
    return [holder.pid for holder in lock.holders]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file that processes share."""
    shared = tmp_path / "shared.lock"
    shared.touch()
    return str(shared)


@pytest.mark.parametrize("kind", ["whole", "process", "description"])
def test_a_sleeper_whose_file_others_have_locked(kind: str, path: str) -> None:
    """Whatever kind the lock is: one of an open file description has no process in the kernel's table."""
    with open(path, "r+") as ours:
        if kind == "whole":
            fcntl.flock(ours, fcntl.LOCK_EX)
        elif kind == "process":
            fcntl.lockf(ours, fcntl.LOCK_EX)
        else:
            fcntl.fcntl(ours, OWN, DESCRIPTION)
        with contended(SLEEPS.format(path=path)) as found:
            (holder,) = found.holders
    assert (found.path, found.on_open_file, found.remote, found.abandoned) == (path, True, False, False)
    assert holder.pid == os.getpid()
    assert "python" in holder.command or "pytest" in holder.command


@pytest.mark.parametrize("call", ["fcntl.flock(opened, fcntl.LOCK_EX)", f"fcntl.fcntl(opened, {OWN}, {DESCRIPTION!r})"])
def test_who_is_blocked_waits_for_readers_too(call: str, path: str) -> None:
    """What keeps it from having the file for itself alone is whatever lock another has."""
    with open(path) as ours:
        if "flock" in call:
            fcntl.flock(ours, fcntl.LOCK_SH)
        else:
            fcntl.lockf(ours, fcntl.LOCK_SH)
        with contended(BLOCKS.format(path=path, call=call)) as found:
            assert pids(found) == [os.getpid()]


def test_locks_that_hold_up_no_sleeper(path: str, tmp_path: Path) -> None:
    """A reader's, for it may read as well; one on another file of that name; and one that it has inherited itself."""
    other = tmp_path / "other" / "shared.lock"
    other.parent.mkdir()
    other.touch()
    with open(path) as ours, open(other) as others, running(SLEEPS.format(path=path)) as process:
        fcntl.flock(ours, fcntl.LOCK_SH)
        fcntl.flock(others, fcntl.LOCK_EX)
        until_asleep(process.pid)
        assert look(process.pid) is None
        fcntl.flock(ours, fcntl.LOCK_EX)
        os.set_inheritable(ours.fileno(), True)
        with running(command=(sys.executable, "-c", SLEEP), pass_fds=[ours.fileno()]) as heir:
            until_asleep(heir.pid)
            assert look(heir.pid) is None


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_waits_for_a_writer(journal: str, tmp_path: Path) -> None:
    """Its locks are on bytes of the database, or on another file where the log is written ahead."""
    path = str(tmp_path / "metrics.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as ours:
        ours.execute(f"PRAGMA journal_mode = {journal}")
        ours.execute("BEGIN IMMEDIATE")
        with contended(WRITES.format(path=path, statement="BEGIN IMMEDIATE")) as found:
            assert (found.path, pids(found)) == (path + ("-shm" if journal == "wal" else ""), [os.getpid()])


def test_sqlite_waits_for_a_reader_before_it_commits(tmp_path: Path) -> None:
    """Who reads has no more than a reader's lock; who is to wait for it has one that shuts new readers out."""
    path = str(tmp_path / "metrics.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as ours:
        ours.execute("CREATE TABLE losses AS SELECT 1 AS loss UNION SELECT 2")
        reader = ours.execute("SELECT loss FROM losses")
        reader.fetchone()
        with contended(WRITES.format(path=path, statement="DELETE FROM losses")) as found:
            assert (found.path, pids(found)) == (path, [os.getpid()])
