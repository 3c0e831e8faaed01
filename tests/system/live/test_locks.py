"""Ranks that wait for locks on files: whoever holds one while waiting for them is the cause, and is named.

Where nothing shows that a rank waits for a lock, whoever holds it is left alone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.live.asking import diagnosed
from tests.system.live.fork_server import fork_server
from tests.system.live.jobs import Job
from tests.system.live.launchers import common_environment
from tests.system.live.test_verdicts import assert_right
from tests.system.live.truths import Truth

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace]

PROGRAM = "lock_kept_over_collective"
SHARED = "UNHANG_TEST_LOCK"


_HOLDER = """
import os, sqlite3, time
held = sqlite3.connect("metrics.db", isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print(os.getpid(), flush=True)
time.sleep(86_400)
"""


@pytest.mark.parametrize("lock", ["sqlite", "sqlite_wal", "posix", "description", "filelock"])
def test_a_lock_that_is_kept_over_a_collective(lock: str, tmp_path: Path, container: int) -> None:
    """Of the two ranks that wait for each other the one with the lock is the cause, and the lock is named."""
    with Job(PROGRAM, directory=tmp_path, environment={SHARED: lock}, forked=True, beside=container) as job:
        reply = diagnosed(job)
    assert_right(Truth.of(PROGRAM, "bare"), reply)
    (finding,) = reply.answer["findings"]
    assert "rank 3 waits for the lock" in finding["summary"]
    assert "which rank 2 holds while it waits in all_reduce" in finding["summary"]
    assert finding["next_steps"][0]["text"].startswith("have rank 2 let go of the lock")


def test_a_database_that_is_open_and_not_waited_for(tmp_path: Path, container: int) -> None:
    """Rank 3 sleeps for a reason of its own: that rank 2 has locked the database is not what holds it up."""
    environment = {SHARED: "sqlite_open"}
    with Job(PROGRAM, directory=tmp_path, environment=environment, forked=True, beside=container) as job:
        reply = diagnosed(job)
    (finding,) = reply.answer["findings"]
    assert [culprit["rank"] for culprit in finding["culprits"]] == [3]
    assert finding["where"]["user"]["function"] == "have_it_open"
    assert "metrics.db" not in finding["summary"]


def test_a_database_that_a_process_outside_the_job_has_locked(tmp_path: Path, container: int) -> None:
    """That process is named beside the rank that waits for it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    environment = {SHARED: "sqlite", "UNHANG_TEST_LOCKED": str(shared)}
    with (
        holder(shared, container) as pid,
        Job(PROGRAM, directory=tmp_path, environment=environment, forked=True, beside=container) as job,
    ):
        reply = diagnosed(job, patience=None)
    (finding,) = reply.answer["findings"]
    assert [culprit["rank"] for culprit in finding["culprits"]] == [2]
    assert f"the lock on {shared}/metrics.db, which is held by pid {pid} (" in finding["summary"]


@contextmanager
def holder(folder: Path, beside: int) -> Iterator[int]:
    """Run a process that has locked the database until the block ends; it ends with the container."""
    ours, theirs = os.pipe()
    with open(ours, encoding="ascii") as said:
        command = (sys.executable, "-c", _HOLDER)
        environment = common_environment(folder)
        fork_server().start(command, environment=environment, directory=folder, output=theirs, ranks=0, beside=beside)
        os.close(theirs)
        yield int(said.readline())
