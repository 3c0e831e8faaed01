"""Helper programs are bounded in time, and what reads their output outlives them in order."""

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from agent.deadline import Deadline
from agent.tools.run_bounded import run_bounded

_LOUD = ("/bin/sh", "-c", "head -c 300000 /dev/zero; exec sleep 60")


@pytest.fixture
def hurried() -> Iterator[None]:
    """Let threads take turns as often as they can, as on a busy node."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hurried")
def test_pipes_are_read_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes of a program that is killed at once were closed under the threads that read them."""
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    before = len(os.listdir("/proc/self/fd"))
    askers = [threading.Thread(target=_run_many) for _ in range(6)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    until = time.monotonic() + 30.0
    while any(thread.name == "pipe-reader" for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert failed == []
    assert len(os.listdir("/proc/self/fd")) == before


def _run_many() -> None:
    for _ in range(40):
        assert run_bounded(_LOUD, Deadline(0.0)).status is None
