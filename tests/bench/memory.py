"""What it costs to read eight ranks' records and marks from their memory, and what py-spy needs for their stacks.

Budget: the marks of eight ranks in less than 10 ms; the record of a rank with 2,000 operations in less than 50 ms.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from agent.deadline import Deadline
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.recorder.memory.copy_records import copy_records
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import MarkReader
from agent.sources.recorder.recorder_source import RecorderSource
from agent.sources.source import LookDepth
from tests.bench.jobs import a_job
from tests.build.processes.processes import find

RANKS = 8
OPERATIONS = 2_000
TIMES = 20


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    job = f"memory-{os.getpid()}"
    with tempfile.TemporaryDirectory() as name, a_job("recording.py", Path(name), name=job, ranks=RANKS):
        ranks = [rank for rank in find().ranks if rank.identity.job == job]
        assert len(ranks) == RANKS, ranks
        return {**_rows(ranks), **_py_spy_row(ranks)}


def _rows(ranks: list[Rank]) -> dict[str, str]:
    procfs, locator = ProcFs(), RecorderLocator()
    reader = MarkReader(locator)
    first = _milliseconds(lambda: copy_records(procfs, ranks[0], locator, Deadline(60)))
    for rank in ranks:
        reader.read(procfs, rank, Deadline(60))
    marks = [_milliseconds(lambda: [reader.read(procfs, r, Deadline(60)) for r in ranks]) for _ in range(TIMES)]
    begun = time.thread_time()
    copies = [_milliseconds(partial(_whole, procfs, ranks[n % RANKS], locator)) for n in range(TIMES)]
    busy = 1000 * (time.thread_time() - begun) / TIMES
    source, context = RecorderSource(locator=locator), LookContext(procfs, "here")
    for rank in ranks:
        source.look(rank, context, LookDepth(), Deadline(60))
    begun = time.thread_time()
    looks = [
        _milliseconds(partial(source.look, ranks[n % RANKS], context, LookDepth(), Deadline(60))) for n in range(TIMES)
    ]
    looking = 1000 * (time.thread_time() - begun) / TIMES
    return {
        "first record of a build of PyTorch, with the search for its symbol": f"{first:.0f} ms",
        f"marks of {RANKS} ranks, median of {TIMES} (budget 10 ms)": f"{median(marks):.1f} ms",
        f"record of {OPERATIONS} operations with call sites, median (budget 50 ms)": f"{median(copies):.0f} ms",
        "the agent's own processor time for that": f"{busy:.0f} ms",
        "the same rank in a plain look, which needs the last 64 of each group, median": f"{median(looks):.0f} ms",
        "the agent's own processor time for a plain look": f"{looking:.0f} ms",
    }


def _whole(procfs: ProcFs, rank: Rank, locator: RecorderLocator) -> None:
    (copied,) = copy_records(procfs, rank, locator, Deadline(60))
    assert len(copied.trace()) == OPERATIONS


def _py_spy_row(ranks: list[Rank]) -> dict[str, str]:
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    assert program is not None
    commands = [[program, "dump", "--json", "--pid", str(rank.stat.pid)] for rank in ranks]
    took = [_milliseconds(partial(subprocess.run, c, stdout=subprocess.DEVNULL, check=True)) for c in commands]
    return {"py-spy's stacks of one rank, for comparison, median": f"{median(took):.0f} ms"}


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)
