"""Who holds a file lock: a real one, and tables of the kernel's."""

import fcntl
import os
from pathlib import Path

import pytest

from agent.proc.file_locks import holders_among, lock_holders, parse_locks
from agent.proc.procfs import ProcFs
from shared.wire.snapshot import Holder
from tests.build.processes.processes import READY, running, until
from tests.unit.agent.sources.test_process import process_of

TABLE = """\
1: POSIX  ADVISORY  WRITE 100 08:01:131 0 EOF
2: FLOCK  ADVISORY  WRITE 200 08:01:132 0 EOF
2: -> FLOCK  ADVISORY  WRITE 300 08:01:132 0 EOF
2:     -> FLOCK  ADVISORY  READ  301 08:01:132 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:01:133 0 EOF
3: -> OFDLCK ADVISORY  WRITE 302 08:01:133 0 EOF
4: LEASE  ACTIVE    READ  400 08:01:134 0 EOF
garbage
5: -> FLOCK
"""


@pytest.mark.parametrize(("waiter", "holders"), [(300, [200]), (301, [200]), (302, []), (200, []), (7, [])])
def test_table_of_the_kernel(waiter: int, holders: list[int]) -> None:
    """Waiters stand below who holds the lock; a lock of an open file description has no process."""
    assert holders_among(parse_locks(TABLE), waiter) == holders


@pytest.mark.ptrace
@pytest.mark.parametrize("call", ["fcntl.flock(opened, fcntl.LOCK_EX)", "fcntl.lockf(opened, fcntl.LOCK_EX)"])
def test_process_that_waits_for_a_lock_of_ours(tmp_path: Path, call: str) -> None:
    """The look names who holds it."""
    path = tmp_path / "checkpoint.lock"
    with path.open("w") as mine:
        (fcntl.flock if "flock" in call else fcntl.lockf)(mine, fcntl.LOCK_EX)
        program = f"import fcntl\nopened = open({str(path)!r}, 'w')\n" + READY + call
        with running(program) as process:
            found = until(lambda: process_of(process.pid), lambda p: p.lock_holders != ())
    assert found.lock_holders == (Holder(pid=os.getpid(), name=ProcFs().stat(os.getpid()).name),)
    assert found.syscall is not None
    assert found.syscall.target == str(path)


def test_tree_without_a_table(tmp_path: Path) -> None:
    """Nobody is told."""
    assert lock_holders(ProcFs(tmp_path), 1) == ()
