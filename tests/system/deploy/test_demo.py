"""The demonstration: a real job hangs, the verdict names the rank that was chosen, and nothing stays behind."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.build.processes import warm
from tests.system.deploy.units import REPOSITORY
from tests.system.live.fork_launcher import FORK_LAUNCHER

pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.slow]

DEMO = REPOSITORY / "deploy" / "demo" / "demo.py"
MARK = "UNHANG_TEST_DEMO"


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark for all processes of one demonstration; those that stay behind fail the test, and are ended."""
    mark = uuid.uuid4().hex
    yield mark
    left = marked(mark)
    for process in left:
        process.kill()
    assert left == []


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that run for the demonstration with this mark."""
    return [process for process in psutil.process_iter() if environment(process).get(MARK) == mark]


def environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process, empty when it is gone or not ours to read."""
    try:
        return process.environ()
    except psutil.Error:
        return {}


START = "import runpy, sys; _, sys.executable, *sys.argv = sys.argv; runpy.run_path(sys.argv[0], run_name='__main__')"

FORKING = """#!/bin/sh
[ "$1 $2" = "-m torch.distributed.run" ] && set -- {launcher} {ranks} "$@"
exec {python} "$@"
"""


SERVING = """#!/bin/sh
[ "$1" = run ] && exec {unhang} "$@"
exec {forked} "$@"
"""


def forking_python(folder: Path) -> Path:
    """Make a Python whose torchrun forks its ranks, beside an `unhang` whose services are forks (see doors.py)."""
    folder.mkdir(exist_ok=True)
    python = Path(sys.executable)
    _script(folder / "forked", warm.script())
    _script(folder / "unhang", SERVING.format(unhang=python.with_name("unhang"), forked=folder / "forked"))
    return _script(folder / "python", FORKING.format(launcher=FORK_LAUNCHER, ranks=4, python=python))


def _script(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def run_demo(mark: str, folder: Path, *arguments: str) -> str:
    """Run the demonstration, whose job and services are forks; it must succeed. Return what it printed."""
    python = forking_python(folder / "bin")
    done = subprocess.run(
        (sys.executable, "-c", START, python, DEMO, *arguments),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, MARK: mark, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_names_the_chosen_rank_and_stops_everything(mark: str, tmp_path: Path) -> None:
    """The rank and the fault come from the arguments, and no process and no file stays behind."""
    printed = run_demo(mark, tmp_path, "--fault", "asleep", "--rank", "1")
    assert re.search(r"^Hung: rank 1 has not joined", printed, re.MULTILINE)
    assert "refresh_cache" in printed
    assert "unhang stacks" in printed
    assert marked(mark) == []
    assert list(tmp_path.glob("unhang-demo-*")) == []


def test_keeps_running_when_asked_and_can_be_stopped_later(mark: str, tmp_path: Path) -> None:
    """With --keep the printed addresses answer, and the printed command stops all of it."""
    printed = run_demo(mark, tmp_path, "--fault", "stopped", "--rank", "3", "--keep")
    assert re.search(r"^Hung: rank 3 ", printed, re.MULTILINE)
    (collector,) = re.findall(r"^Collector (\S+),", printed, re.MULTILINE)
    (job,) = re.findall(r"/v1/jobs/(demo-\d+)/diagnoses", printed)
    jobs = httpx.get(f"{collector}/v1/jobs", timeout=60.0).raise_for_status().json()["jobs"]
    assert job in {known["name"] for known in jobs}
    (folder,) = re.findall(r"--stop (\S+)$", printed, re.MULTILINE)
    run_demo(mark, tmp_path, "--stop", folder)
    assert marked(mark) == []
