"""How long `unhang diagnose` takes on one box, for a hung job that nobody has prepared: the whole command.

Budget: the verdict within 3.3 s. Most of it lies between the two looks, which are three seconds apart.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.jobs import REPOSITORY
from tests.system.live.jobs import Job

TIMES = 5
WAITED_SECONDS = 10.0
"""A rank that sleeps is reported once others have waited five seconds for it."""


def measure() -> dict[str, str]:
    """Run the benchmark and return its rows: what -> figure."""
    with (
        tempfile.TemporaryDirectory() as name,
        Job("asleep_before_collective", directory=Path(name), recorded=True) as job,
    ):
        time.sleep(WAITED_SECONDS)
        runs = [_diagnose(job.name) for _ in range(TIMES)]
    whole, reported, cpu = (median(figures) for figures in zip(*runs, strict=True))
    return {
        f"verdict on one box, median of {TIMES} (budget 3.3 s)": f"{reported:.1f} s",
        "the whole command, with the start of Python": f"{whole:.1f} s",
        "processor time of the command": f"{cpu:.2f} s",
    }


def _diagnose(job: str) -> tuple[float, float, float]:
    """Return seconds of the command, seconds up to its verdict, and seconds of processor time."""
    used, begun = _cpu_seconds(), time.monotonic()
    command = [sys.executable, "-m", "cli", "diagnose", "--json", "--", job]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    took = time.monotonic() - begun
    verdict = json.loads(done.stdout)
    assert [culprit["rank"] for culprit in verdict["findings"][0]["culprits"]] == [2], verdict["headline"]
    return took, verdict["took_seconds"], _cpu_seconds() - used


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
