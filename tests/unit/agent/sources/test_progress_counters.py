"""What counts as progress, and the beats of real processes."""

import time

import pytest

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from agent.sources.progress_counters import has_moved, take_beat, take_settled_beat
from shared.wire.snapshot import Beat
from tests.build.processes.processes import READY, SLEEP, running

pytestmark = pytest.mark.ptrace


def beat(seconds: float, *, cpu: float = 1.0, switches: int = 10, log: int | None = 5) -> Beat:
    """Return a beat some seconds after an imagined start."""
    at_ns = int(seconds * 1e9)
    return Beat(at_ns=at_ns, cpu_seconds=cpu, main_cpu_seconds=cpu, main_switches=switches, log_bytes=log)


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (beat(5), False),
        (beat(5, switches=12), False),
        (beat(5, switches=40), True),
        (beat(5, cpu=1.02), False),
        (beat(5, cpu=1.5), True),
        (beat(5, log=6), True),
        (beat(0.1, switches=12), False),
    ],
)
def test_what_counts_as_progress(after: Beat, moved: bool) -> None:
    """A wait with a timeout wakes up now and then, and that is not progress."""
    assert has_moved(beat(0), after) is moved


def test_settled_beat_of_a_busy_process_comes_soon() -> None:
    """It does not wait for a rest that does not come."""
    with running(READY + "while True: time.sleep(0.001)\n") as process:
        begun = time.perf_counter()
        take_settled_beat(ProcFs(), process.pid)
        assert time.perf_counter() - begun < 30


_SPINS = """
import ctypes, threading, time

def poll(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    while time.thread_time() < 0.3:
        pass
    done.release()
    time.sleep(600)

done = threading.Semaphore(0)
for name in ("TP_SHM_reactor", "worker"):
    threading.Thread(target=poll, args=[name]).start()
for _ in range(2):
    done.acquire()
"""


def test_what_a_thread_uses_that_only_waits_is_no_work() -> None:
    """TensorPipe's spins in every rank that makes remote procedure calls, whatever that rank does."""
    with running(_SPINS + READY + "time.sleep(600)\n", env={"PYTHONUNBUFFERED": "1"}) as process:
        whole = take_beat(ProcFs(), process.pid).cpu_seconds
        spent = whole - take_settled_beat(ProcFs(), process.pid).cpu_seconds
        assert 0.2 < spent < 0.4
        assert whole - spent >= 0.3


def test_beat_of_a_process_that_is_gone() -> None:
    """It is told as gone."""
    with running(SLEEP) as process:
        pid = process.pid
    with pytest.raises(Gone):
        take_beat(ProcFs(), pid)
