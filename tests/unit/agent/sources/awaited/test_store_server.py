"""Who only looks as if it served a store: nothing is told of it, and nothing fails."""

import pytest

from agent.deadline import Deadline
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import ProcFs
from agent.sources.awaited.store_server import keys_awaited
from tests.build.processes.processes import running

pytestmark = pytest.mark.ptrace

NAMED_SO = """
import ctypes, threading, time
def pose():
    ctypes.CDLL(None).prctl(15, b"pt_tcpstore_uv", 0, 0, 0)
    print("ready", flush=True)
    time.sleep(600)
threading.Thread(target=pose, daemon=True).start()
time.sleep(600)
"""


def test_a_thread_that_has_the_name_alone() -> None:
    """No PyTorch is loaded, and nothing on its stack leads to a store."""
    procfs = ProcFs()
    with (
        running(NAMED_SO) as process,
        open_memory(procfs, procfs.stat(process.pid), Deadline(30)) as memory,
    ):
        names = {procfs.text(process.pid, f"task/{tid}/comm").strip() for tid in procfs.tids(process.pid)}
        assert "pt_tcpstore_uv" in names
        assert list(keys_awaited(procfs, process.pid, memory, read_mappings(procfs, process.pid))) == []
