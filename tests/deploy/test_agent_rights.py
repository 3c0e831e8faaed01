"""What the agent's unit grants is enough to look at other people's processes, and not more than to look."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.sandbox import command_under
from tests.deploy.units import RUN_SECONDS

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

OWNER = 61002

JOB = """
import os, sys, time
os.setgroups([]); os.setgid({owner}); os.setuid({owner}); os.umask(0o077)
log = open("train.log", "w")
log.write("step 3\\n"); log.flush()
print("ready", flush=True)
def wait_for_neighbour():
    time.sleep(600)
wait_for_neighbour()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of another user, in a folder that only it may enter, with a log that only it may read."""
    os.chown(tmp_path, OWNER, OWNER)
    tmp_path.chmod(0o700)
    program = JOB.format(owner=OWNER)
    with subprocess.Popen((sys.executable, "-c", program), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def under_the_unit(*program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the agent's rights."""
    command = command_under("agent", program)
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


@pytest.mark.parametrize("options", [(), ("--native",), ("--nonblocking",)], ids=" ".join)
def test_stacks_of_another_user_are_read(job: subprocess.Popen[str], options: tuple[str, ...]) -> None:
    """py-spy works in all the ways that the agent calls it."""
    py_spy = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    assert py_spy is not None
    done = under_the_unit(py_spy, "dump", "--json", *options, "--pid", str(job.pid))
    assert done.returncode == 0, done.stderr
    names = [frame["name"] for thread in json.loads(done.stdout) for frame in thread["frames"]]
    assert "wait_for_neighbour" in names


@pytest.mark.parametrize("what", ["environ", "mem", "maps", "syscall", "wchan", "fd", "fdinfo", "io"])
def test_process_of_another_user_is_read(job: subprocess.Popen[str], what: str) -> None:
    """What /proc shows of a process to its owner, it shows to the agent."""
    program = (
        "import os, sys; path = sys.argv[1]; os.path.isdir(path) and os.listdir(path) or os.open(path, os.O_RDONLY)"
    )
    done = under_the_unit(sys.executable, "-c", program, f"/proc/{job.pid}/{what}")
    assert done.returncode == 0, done.stderr


def test_log_of_another_user_is_read_and_not_written(job: subprocess.Popen[str], tmp_path: Path) -> None:
    """Reading any log is granted; changing one is not."""
    log = tmp_path / "train.log"
    read = under_the_unit(sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(log))
    assert "step 3" in read.stdout
    write = under_the_unit(sys.executable, "-c", "import sys; open(sys.argv[1], 'a')", str(log))
    assert "PermissionError" in write.stderr


def test_memory_of_another_user_is_not_written_by_a_call(job: subprocess.Popen[str]) -> None:
    """CAP_SYS_PTRACE would allow process_vm_writev; the filter does not."""
    program = (
        "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); "
        "libc.process_vm_writev(int(sys.argv[1]), None, 0, None, 0, 0); print(ctypes.get_errno())"
    )
    assert under_the_unit(sys.executable, "-c", program, str(job.pid)).stdout == "1\n"
