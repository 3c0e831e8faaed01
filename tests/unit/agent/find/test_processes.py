"""What runs in a process, as listings tell it from what is mapped."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.find.processes import Lister, RankLikelihood
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from shared.wire.snapshot import lists_late
from tests.build.processes.processes import READY, SLEEP, find, rank_environment, running

pytestmark = pytest.mark.ptrace

LOADS_LATER = """
import mmap, sys
print("ready", flush=True)
sys.stdin.readline()
with open(sys.argv[1], "rb") as library:
    mapped = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)
print("loaded", flush=True)
sys.stdin.readline()
"""


def test_a_process_that_loads_pytorch_later_is_seen_to(tmp_path: Path) -> None:
    """Nothing is listed again of one that has as much mapped as before; what it loads makes that more."""
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(bytes(4096))
    procfs = _Counting()
    lister = Lister(procfs)
    command = (sys.executable, "-c", LOADS_LATER, str(library))
    with running(command=command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(3):
            assert lister.runs(procfs.stat(process.pid)) is RankLikelihood.PYTHON
        assert procfs.listed == 1
        process.stdin.write("now\n")
        process.stdin.flush()
        assert process.stdout.readline() == "loaded\n"
        assert lister.runs(procfs.stat(process.pid)) is RankLikelihood.PARALLEL


class _Counting(ProcFs):
    """Counts how often it is read what a process has mapped."""

    listed = 0

    def read(self, pid: int, name: str, *, most: int = 1 << 20) -> bytes:
        """Read it."""
        self.listed += name == "maps"
        return super().read(pid, name, most=most)


UNREADABLE = f"""
import ctypes, tempfile
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
with open("/proc/self/stat") as stat:
    starts, ends = (int(field) & ~4095 for field in stat.read().rpartition(")")[2].split()[47:49])
empty = tempfile.TemporaryFile()
libc.mmap(starts, ends + 4096 - starts, 1, 2 | 16, empty.fileno(), 0)
{READY}time.sleep(600)
"""
"""Maps an empty file over its variables: whoever reads them gets nothing, as from a file system that failed."""


def test_one_beside_a_rank_that_cannot_be_read_may_be_a_rank() -> None:
    """Then nothing follows from a rank that is not found, which is said."""
    with running(SLEEP, env=rank_environment(0)), running(UNREADABLE, env=rank_environment(1)) as lost:
        (told,) = (each for each in find(ProcFs()).missing if str(lost.pid) in each.detail)
    assert (told.source, told.reason, lists_late((told,))) == ("ranks", Reason.REFUSED, True)
