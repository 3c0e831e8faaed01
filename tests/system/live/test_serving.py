"""Engines that serve: hung while `/health` says 200, idle, slow or polled, with real processes and real requests.

`tests/programs/serving/engine.py` is built as engines are: an API process, an engine core, and workers.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from collector.align.thresholds import FROZEN_SECONDS
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from tests.build.processes.ports import free_port
from tests.build.processes.processes import until
from tests.system.live.asking import NoAnswer, diagnose
from tests.system.live.truths import PROGRAMS

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS = 60.0
"""A lock is told after 20 of waiting, what is stopped after five."""


@dataclass(frozen=True)
class Engine:
    """One that runs."""

    port: int
    job: str
    pids: tuple[int, ...]
    """Of its API process, its core and its workers."""

    def ask(self, path: str) -> Thread:
        """Send a request, and do not wait for its answer."""
        thread = Thread(target=self._get, args=(path,), daemon=True)
        thread.start()
        return thread

    def is_healthy(self) -> bool:
        """Does it say so?"""
        return self._get("/health") == b"ok"

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
                return bytes(answer.read())
        except OSError:
            return None


@contextmanager
def engine(workers: int = 2, *enter: str) -> Iterator[Engine]:
    """Run one, and end it to the last process; `enter`: a command that runs it as its child, in other namespaces."""
    port, store = free_port(), free_port()
    command = (*enter, sys.executable, str(PROGRAMS / "serving" / "engine.py"), str(port), str(workers))
    environment = {**os.environ, "MASTER_PORT": str(store), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            api = _children(process.pid)[0] if enter else process.pid
            core = _children(api)
            yield Engine(port, f"127.0.0.1:{store}", (api, *core, *_children(core[0])))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _children(pid: int) -> tuple[int, ...]:
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def told(job: str) -> Diagnosis:
    """Ask, as whoever is patient does; a machine that is very busy may not find the job at once."""

    def ask() -> Diagnosis | None:
        with suppress(NoAnswer):
            return Diagnosis.model_validate(diagnose(job, directory=Path.cwd(), patience=SECONDS).answer)
        return None

    found = until(ask, lambda found: found is not None, SECONDS)
    assert found is not None
    return found


def test_a_lock_in_the_scheduler_is_told_with_its_line() -> None:
    """No rank is at fault, and none waits for another: the core never hands work on."""
    with engine() as served:
        served.ask("/generate/lock_in_scheduler")
        (finding,) = told(served.job).findings
        assert served.is_healthy()
    assert (finding.kind, finding.culprits) == (Kind.REQUESTS_UNANSWERED, ())
    assert finding.where is not None and finding.where.user is not None
    assert finding.where.user.function == "take_lock_twice"
    assert f"process {served.pids[1]} " in finding.summary


@pytest.mark.parametrize("which", [0, 1], ids=["API", "core"])
def test_one_that_is_stopped_is_told_with_how_it_goes_on(which: int) -> None:
    """A stopped API process accepts nothing; behind a stopped core requests wait in it."""
    with engine() as served:
        os.kill(served.pids[which], signal.SIGSTOP)
        served.ask("/generate/x")
        (finding,) = told(served.job).findings
    assert finding.kind is Kind.REQUESTS_UNANSWERED
    assert [step.command for step in finding.next_steps] == [f"kill -CONT {served.pids[which]}"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_in_a_lock_is_the_culprit(workers: int) -> None:
    """Alone it is named because clients wait, and else because the other one does."""
    with engine(workers) as served:
        served.ask("/generate/lock_in_worker")
        (finding,) = told(served.job).findings
    assert finding.culprit_ranks == (workers - 1,)
    assert finding.where is not None and finding.where.user is not None
    assert finding.where.user.function == "take_lock_twice"


def test_an_idle_engine_is_idle_and_a_slow_one_runs() -> None:
    """Neither hangs, and who computes is not called idle."""
    with engine() as served:
        idle = told(served.job)
        served.ask("/generate/slow")
        slow = told(served.job)
    assert (idle.verdict, idle.state) == (Verdict.NOT_HUNG, "idle")
    assert not slow.findings and slow.state != "idle"


def test_a_long_poll_accuses_nobody() -> None:
    """Its request waits for as long as one that is lost, and nobody can tell which it is."""
    with engine() as served:
        served.ask("/poll")
        time.sleep(FROZEN_SECONDS)  # a request that has just come has not waited
        found = told(served.job)
    assert (found.verdict, found.findings) == (Verdict.CANNOT_TELL, ())
