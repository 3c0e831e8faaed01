"""Helper programs, real ones: how they end, and what is left of them."""

import os
import signal
import sys
import threading

import pytest

from agent.deadline import Deadline
from agent.tools.run_bounded import LARGEST_OUTPUT, run_bounded
from tests.build.processes.processes import until


def test_pipes_of_a_late_program_are_read_and_closed_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes without end: whoever closes its pipes at the deadline does so between two reads."""
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    before = _open_files()
    for _ in range(20):
        assert run_bounded(["cat", "/dev/zero"], Deadline(0.02)).status is None
    until(lambda: [one for one in threading.enumerate() if one.name == "pipe-reader"], lambda left: not left)
    assert failed == []
    assert _open_files() == before


def test_a_program_hears_only_the_signals_it_may() -> None:
    """Blocked ones do not reach it, nor who it starts in turn; our own thread hears them as before."""
    ours = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    program = "import signal; print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))))"
    block = {signal.SIGTERM, signal.SIGHUP}
    heard = run_bounded(["timeout", "60", sys.executable, "-c", program], Deadline(60.0), block=block)
    assert heard.stdout.decode().strip() == str(sorted(map(int, block)))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == ours


def test_what_is_written_past_the_bound_is_thrown_away() -> None:
    """The program is not held up by it."""
    command = ["head", "-c", str(LARGEST_OUTPUT * 2), "/dev/zero"]
    output = run_bounded(command, Deadline(60.0))
    assert output.status == 0
    assert LARGEST_OUTPUT <= len(output.stdout) <= LARGEST_OUTPUT + 65_536


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
