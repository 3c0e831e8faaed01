"""A rank's record is read from its memory by whoever may look at it, wherever it runs, and by nobody else."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.build.processes.processes import running
from tests.system.deploy.sandbox import command_under
from tests.system.deploy.units import RUN_SECONDS

pytestmark = [pytest.mark.root, pytest.mark.ptrace, pytest.mark.live, pytest.mark.needs("setpriv", "systemd-analyze")]

OWNER = 61002

JOB = """
import os, sys, time
import torch, torch.distributed as dist
owner = int(sys.argv[1])
if owner:
    os.setgroups([]); os.setgid(owner); os.setuid(owner)
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
for step in range(3):
    dist.all_reduce(torch.ones(4, 2))
print("ready", flush=True)
time.sleep(600)
"""

READ = """
import json, sys
from agent.sources.recorder.recorder_source import RecorderSource
from shared.missing import Missing
from tests.build.processes.looking import ask_source, rank_of
trace = ask_source(RecorderSource(), rank_of(int(sys.argv[1])), seconds=60)
frames = [frame.function for frame in trace.call_sites[-1]]
print(json.dumps([list(trace.origin), list(trace.collective_seq), [s.op for s in trace.signatures], frames]))
"""

WHOLE = [["memory"], [1, 2, 3], ["all_reduce"]]


def read_by(*command: str) -> list[object]:
    """Read a record with a command that runs our reader; return what it tells."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS * 2, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: list[object] = json.loads(done.stdout)
    return told


def reader(pid: int) -> tuple[str, ...]:
    """Return the command of our reader."""
    return sys.executable, "-c", READ, str(pid)


@pytest.fixture(scope="module")
def rank_of_another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A rank of another user."""
    with running(command=(sys.executable, "-c", JOB, str(OWNER)), cwd=tmp_path_factory.mktemp("rank")) as process:
        yield process.pid


def test_rank_of_another_user(rank_of_another: int) -> None:
    """The two capabilities of the unit are enough, its filter of system calls lets everything through."""
    told = read_by(*command_under("agent", reader(rank_of_another)))
    assert told[:3] == WHOLE
    assert "all_reduce" in str(told[3]) and "<module>" in str(told[3])


def test_rank_that_is_stopped_and_belongs_to_another_user(rank_of_another: int) -> None:
    """Nobody need wake it."""
    os.kill(rank_of_another, signal.SIGSTOP)
    try:
        assert read_by(*command_under("agent", reader(rank_of_another)))[:3] == WHOLE
    finally:
        os.kill(rank_of_another, signal.SIGCONT)


def test_user_without_the_right_is_told_which_one(rank_of_another: int) -> None:
    """The kernel refuses, and we say what would help."""
    without = ("setpriv", "--reuid", "61003", "--regid", "61003", "--clear-groups", "--bounding-set=-all")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        (*without, *reader(rank_of_another)), capture_output=True, text=True, env=environment, check=False, timeout=60
    )
    assert "NotPermitted" in done.stderr and "CAP_SYS_PTRACE" in done.stderr


INSIDE = """
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/packages
mount --bind "$1" /mnt/packages
exec "$2" -I -c "$3" "$4" 0
"""
LATER = 'import sys; sys.path.insert(0, "/mnt/packages"); exec(sys.argv.pop(1))'


@pytest.fixture(scope="module")
def contained() -> Iterator[int]:
    """A rank in a mount and a process namespace of its own, whose libraries lie where only it finds them."""
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    packages = Path(torch.origin).parents[1]
    python = os.path.realpath(sys.executable)
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    command = (*apart, "sh", "-ec", INSIDE, "sh", str(packages), python, LATER, JOB)
    with running(command=command) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield int(children[0])


@pytest.mark.parametrize("by_the_unit", [False, True], ids=["root", "the unit"])
def test_rank_in_a_container(by_the_unit: bool, contained: int) -> None:
    """Its libraries are found through its own root folder, by its own mounts."""
    assert "/mnt/packages/torch/lib/libtorch_cpu.so" in Path(f"/proc/{contained}/maps").read_text()
    assert not Path("/mnt/packages").exists()
    command = command_under("agent", reader(contained)) if by_the_unit else reader(contained)
    assert read_by(*command)[:3] == WHOLE
