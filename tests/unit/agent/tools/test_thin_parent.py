"""A command in a child process: its parent ends with its status, whatever keeps the child from ending."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.build.processes.processes import is_alive, until

_COMMAND = """
import atexit, os, signal, sys, time
from agent.tools.thin_parent import run_in_child

def work():
    print(os.getpid(), flush=True)
    {work}

sys.exit(run_in_child(work))
"""
_HANDLED = "signal.signal(signal.SIGTERM, lambda *_: os._exit(9)); time.sleep(60)"
_STUCK = "[signal.signal(n, lambda *_: None) for n in (2, 15)]; [time.sleep(60) for _ in range(2)]"
_DEFAULT = "signal.signal(signal.SIGINT, signal.SIG_DFL); time.sleep(60)"


@pytest.mark.parametrize(
    ("work", "sent", "status", "most_seconds"),
    [
        ("return 10", None, 10, 5),
        ("raise ValueError", None, 1, 5),
        ("atexit.register(time.sleep, 60); return 12", None, 12, 8),  # it cannot end, and so it holds nobody up
        ("os.kill(os.getpid(), signal.SIGKILL)", None, 137, 5),
        (_HANDLED, signal.SIGTERM, 9, 5),
        (_DEFAULT, signal.SIGINT, 130, 5),
        (_STUCK, signal.SIGTERM, 143, 12),
        (_HANDLED, signal.SIGKILL, -9, 5),
    ],
)
def test_status_and_end(work: str, sent: signal.Signals | None, status: int, most_seconds: float) -> None:
    """The status is the child's, or the signal's; where the child told it, whoever reads its output is at the end."""
    command = [sys.executable, "-c", _COMMAND.format(work=work)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        time.sleep(0.3)
        began = time.monotonic()
        if sent is not None:
            process.send_signal(sent)
        if work is not _STUCK:
            assert process.stdout.read() == ""
        assert process.wait(30) == status
        assert time.monotonic() - began < most_seconds
        if work in ("return 10", _HANDLED, _DEFAULT):
            until(lambda: is_alive(child), lambda alive: not alive, 3)
    finally:
        process.stdout.close()
        if is_alive(child):
            os.kill(child, signal.SIGKILL)
