"""How processes ended that somebody else has waited for: real ones, ended in every way."""

import gc
import os
import signal
import subprocess
import sys

import pytest

from agent.proc.exit_status import HeldProcess, read_status

KEEPS = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 15)


@pytest.mark.parametrize(
    ("program", "code", "killed_by"),
    [
        ("raise SystemExit(0)", 0, None),
        ("raise SystemExit(7)", 7, None),
        ("import os; os.abort()", None, signal.SIGABRT),
    ],
)
def test_status_of_a_process_that_was_reaped(program: str, code: int | None, killed_by: int | None) -> None:
    """Known where the kernel keeps it, else honestly not."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()\n" + program], stdin=subprocess.PIPE
    )
    held = HeldProcess(process.pid)
    assert held.exit_status() is None
    process.communicate(b"")
    assert HeldProcess(process.pid).exit_status() is None  # it may end before it is held
    assert read_status(held.exit_status()) == ((code, killed_by) if KEEPS else (None, None))


def test_descriptors_are_given_back() -> None:
    """An agent holds one of each rank that lives, and no more."""
    gc.collect()  # of what earlier tests left
    before = len(os.listdir("/proc/self/fd"))
    held = [HeldProcess(os.getpid()) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before + 20
    held.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("status", "told"), [(None, (None, None)), (0, (0, None)), (256, (1, None)), (9, (None, 9)), (139, (None, 11))]
)
def test_words_of_waitpid(status: int | None, told: tuple[int | None, int | None]) -> None:
    """Bit 7 says that a core was dumped, and nothing of the signal."""
    assert read_status(status) == told
