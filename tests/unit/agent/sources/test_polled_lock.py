"""Lock files that real processes poll: which one, who holds it, and whether anybody does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.source import LookDepth
from agent.sources.stacks import StacksSource
from agent.tools.run_bounded import find_program
from shared.wire.snapshot import PolledLock
from tests.build.processes.looking import PLAIN, rank_of
from tests.build.processes.processes import READY, running, until

pytestmark = pytest.mark.ptrace

TAKE = "import filelock\n" + READY + "filelock.{kind}({path!r}).acquire()\n"
HOLD = "import filelock\nlock = filelock.{kind}({path!r})\nlock.acquire()\n" + READY + "time.sleep(600)\n"
SHUT = "import os, sys\nos.open({path!r}, os.O_CREAT | os.O_EXCL)\nprint('ready', flush=True)\nsys.stdin.read()\n"


def look(pid: int, depth: LookDepth = PLAIN) -> Any:
    """Look at a process as the source of stacks does."""
    source = StacksSource(find_program("py-spy"), ThreadPool())
    return source.look(rank_of(pid), LookContext(ProcFs(), "here"), depth, Deadline(20.0)).get("polled_lock")


@contextmanager
def polling(kind: str, path: Path) -> Iterator[int]:
    """Run a process that polls a lock that it does not get."""
    with running(TAKE.format(kind=kind, path=str(path))) as process:
        until(lambda: look(process.pid), lambda found: isinstance(found, PolledLock) and found.path is not None)
        yield process.pid


@pytest.mark.parametrize("kind", ["FileLock", "SoftFileLock"])
def test_the_holder_is_told(kind: str, tmp_path: Path) -> None:
    """Whether it has locked the file or merely made it."""
    path = tmp_path / "cache.lock"
    with running(HOLD.format(kind=kind, path=str(path))) as holder, polling(kind, path) as pid:
        found = look(pid)
    assert (found.path, found.remote, found.abandoned) == (str(path), False, False)
    assert [one.pid for one in found.holders] == [holder.pid]


@pytest.mark.node
def test_a_lock_whose_maker_is_gone_is_abandoned(tmp_path: Path) -> None:
    """It exists by its file alone, and nobody has that open, but for another of that name, as PyTorch's builds have."""
    path, other = tmp_path / "one" / "lock", tmp_path / "two" / "lock"
    for each in (path, other):
        each.parent.mkdir()
    with running(SHUT.format(path=str(path)), stdin=-1), polling("SoftFileLock", path) as pid:
        held = look(pid)
    with running(SHUT.format(path=str(other)), stdin=-1), polling("SoftFileLock", path) as pid:
        left = look(pid)
    assert (len(held.holders), held.abandoned) == (1, False)
    assert (left.holders, left.abandoned) == ((), True)
    assert left.held_since == pytest.approx(path.stat().st_mtime)


def test_a_process_that_polls_nothing(tmp_path: Path) -> None:
    """None, and in a survey nobody asks."""
    path = tmp_path / "cache.lock"
    path.touch()
    with running() as process, polling("SoftFileLock", path) as pid:
        assert look(process.pid) is None
        assert look(pid, LookDepth(brief=True)) is None


def test_a_name_that_is_no_plain_text_is_not_taken_for_a_path(tmp_path: Path) -> None:
    """A job chooses the names of its files; that one is polled is told all the same."""
    path = tmp_path / 'quoted " name.lock'
    path.touch()
    with running(TAKE.format(kind="SoftFileLock", path=str(path))) as process:
        found = until(lambda: look(process.pid), lambda found: found is not None)
    assert (found.path, found.abandoned, found.holders) == (None, False, ())
