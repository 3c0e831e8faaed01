"""`unhang diagnose --from DIR` against torchfrtrace: seconds, cpu seconds and memory for dumps of large jobs on disk.

Both run as commands, in turn, on the same files. Memory is the sum of the proportional set sizes (PSS: a shared page
counts once) of a command's whole process tree, the highest of samples taken every 20 ms; cpu is that of all processes.
Budget (issue 3): 1,024 ranks 20 times faster than torchfrtrace for 256 ranks times four, in a tenth of its memory
for 256 ranks times four. Torchfrtrace is not run on 1,024 ranks: that takes minutes and gigabytes.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.dumps import RECORDS, Job, write_dumps

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = (sys.executable, "-m", "cli", "diagnose", "--json", "--from")
TORCH_S = (sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace")
COMPARED = (64, 256)
LARGEST = 1024
SAMPLE_SECONDS = 0.02
MOST_SECONDS = 600.0

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What one command cost, and what it said."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.cpu_seconds:.2f} s cpu, {self.peak_bytes / 2**20:.0f} MiB"


def run(command: tuple[str, ...]) -> Run:
    """Run a command to its end. Raises TimeoutError where it takes too long."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        peak = 0
        while True:
            ended, _, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - began > MOST_SECONDS:
                process.kill()
                raise TimeoutError(f"{command} takes longer than {MOST_SECONDS:.0f} s")
            peak = max(peak, sum(map(_pss, _tree(process.pid))))
            time.sleep(SAMPLE_SECONDS)
        took = time.monotonic() - began
        process.returncode = 0  # it was waited for above, with its use of resources
        output.seek(0)
        return Run(took, used.ru_utime + used.ru_stime, peak, output.read())


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _pss(pid: int) -> int:
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0
    return 0 if found is None else int(found[1]) * 1024


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    rows: dict[str, str] = {}
    for ranks in COMPARED:
        theirs, ours = _both(ranks)
        rows[f"torchfrtrace, {ranks} ranks x {RECORDS:,} records"] = str(theirs)
        rows[f"unhang, {ranks} ranks x {RECORDS:,} records"] = str(ours)
    times = LARGEST // COMPARED[-1]
    largest = _ours(LARGEST)
    rows[f"unhang, {LARGEST:,} ranks x {RECORDS:,} records"] = str(largest)
    rows[f"torchfrtrace for {COMPARED[-1]} ranks, times {times}, against it"] = (
        f"{times * theirs.seconds / largest.seconds:.1f} times its time, "
        f"{times * theirs.peak_bytes / largest.peak_bytes:.1f} times its memory"
    )
    return rows


def _both(ranks: int) -> tuple[Run, Run]:
    job = Job(ranks)
    with tempfile.TemporaryDirectory() as name:
        write_dumps(Path(name), job)
        theirs, ours = run((*TORCH_S, name)), run((*OURS, name))
    assert f"missing ranks: {{{job.culprit}}}" in theirs.output, theirs.output[-2000:]
    _check(ours, job)
    return theirs, ours


def _ours(ranks: int) -> Run:
    job = Job(ranks)
    with tempfile.TemporaryDirectory() as name:
        write_dumps(Path(name), job)
        ours = run((*OURS, name))
    _check(ours, job)
    return ours


def _check(ours: Run, job: Job) -> None:
    assert f"rank {job.culprit} has not joined" in ours.output, ours.output[-2000:]
