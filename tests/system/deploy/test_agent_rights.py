"""What the agent's unit grants is enough to look at other people's processes, and not more than to look."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.app import create_app
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from shared.missing import Reason
from shared.wire.debug_output import DeepLook, How
from tests.build.processes.waiting import until_it_answers
from tests.system.deploy.sandbox import command_under
from tests.system.deploy.units import RUN_SECONDS

pytestmark = [pytest.mark.root, pytest.mark.ptrace, pytest.mark.needs("setpriv", "systemd-analyze")]

OWNER = 61002

JOB = """
import os, sys, time
os.setgroups([]); os.setgid({owner}); os.setuid({owner}); os.umask(0o077)
log = open("train.log", "w")
os.write(log.fileno(), b"step 3\\n")
print("ready", flush=True)
os.dup2(log.fileno(), 1)
def wait_for_neighbour():
    time.sleep(600)
wait_for_neighbour()
"""

AGENT = "from cli.main import main; main()"
JOB_NAME = f"rights-test-{os.getpid()}"
"""Of these tests in this process: test_pod_rights.py may run beside, and its agent sees our rank."""

QUIET = {"UNHANG_AGENT_ONLY_USERS": str(OWNER), "UNHANG_AGENT_BEAT_SECONDS": "0"}
"""What else runs here is left out, and nobody is looked at unasked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that only another user may enter."""
    folder = tmp_path_factory.mktemp("job")
    os.chown(folder, OWNER, OWNER)
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A rank of another user, in that folder, with a log that only it may read."""
    command = (sys.executable, "-c", JOB.format(owner=OWNER))
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": JOB_NAME}
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, **rank}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@contextmanager
def running_agent(*, drop_in: str | None = None, **variables: str) -> Iterator[str]:
    """The agent itself with the unit's rights; its address."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
    command = command_under("agent", (sys.executable, "-c", AGENT, "agent", "--listen", address), drop_in=drop_in)
    with subprocess.Popen(command, env={**os.environ, **QUIET, **variables}) as process:
        try:
            until_it_answers(f"http://{address}/healthz", process)
            yield f"http://{address}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    """One without drop-ins, which is asked for debuggers, too."""
    with running_agent(UNHANG_AGENT_DEBUGGERS="true") as address:
        yield address


def under_the_unit(*program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the agent's rights."""
    command = command_under("agent", program)
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


def assert_seen_whole(agent: str, pid: int) -> None:
    """Ask an agent for the job, and find all of its one rank in the answer."""
    answer = httpx.get(f"{agent}/v1/snapshot", params={"job": JOB_NAME}, timeout=RUN_SECONDS)
    rank: dict[str, Any]
    (rank,) = answer.raise_for_status().json()["ranks"]
    assert rank["identity"]["pid"] == pid
    assert "wait_for_neighbour" in str(rank["stacks"])
    assert rank["process"]["syscall"]["name"] == "clock_nanosleep"
    assert "step 3" in str(rank["logs"])
    assert rank["fds"]["total"] > 0


def test_agent_sees_a_rank_of_another_user(job: subprocess.Popen[str], agent: str) -> None:
    """The whole look: facts of the process, its stack, its descriptors and the end of its log."""
    assert_seen_whole(agent, job.pid)


async def test_job_of_another_user_is_diagnosed(
    job: subprocess.Popen[str], agent: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From the question to the verdict: a collector asks the agent, and says where the one rank is."""
    settings = CollectorSettings(
        agents=agent, looks=2, interval_seconds=0.2, store=tmp_path_factory.mktemp("store") / "store.sqlite3"
    )
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://c") as client:
        answer = await client.post(f"/v1/jobs/{JOB_NAME}/diagnoses", params={"wait": 30}, timeout=RUN_SECONDS)
    diagnosis = Diagnosis.model_validate(answer.raise_for_status().json())
    assert (diagnosis.coverage.expected, diagnosis.coverage.with_stacks) == (1, 1)
    assert "wait_for_neighbour" in answer.text


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
    program = "import os, sys; os.listdir(os.open(p, 0)) if os.path.isdir(p := sys.argv[1]) else os.open(p, 0)"
    done = under_the_unit(sys.executable, "-c", program, f"/proc/{job.pid}/{what}")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("job")
def test_log_of_another_user_is_read_and_not_written(folder: Path) -> None:
    """Reading any log is granted; changing one is not."""
    log = folder / "train.log"
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


def deep(agent: str, pid: int, how: How) -> DeepLook:
    """Have an agent look closely, and hold that the rank goes on sleeping, untraced."""
    answer = httpx.get(f"{agent}/v1/ranks/{pid}/deep", params={"how": how, "seconds": 0.3}, timeout=RUN_SECONDS)
    taken = DeepLook.model_validate(answer.raise_for_status().json())
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    assert "State:\tS" in status
    assert "TracerPid:\t0" in status
    return taken


def functions(taken: DeepLook) -> set[str]:
    """The functions that the main thread is in."""
    assert taken.stacks is not None, taken.missing
    assert taken.stacks.main is not None
    return {frame.function for frame in taken.stacks.stack(taken.stacks.main)}


@pytest.mark.needs("gdb", "strace")
def test_closer_looks_with_the_units_two_capabilities(job: subprocess.Popen[str], agent: str) -> None:
    """strace works whole, pystack without native frames; that gdb cannot work is said before it prints nonsense."""
    by_gdb, by_pystack, calls = (deep(agent, job.pid, how) for how in (How.GDB, How.PYSTACK, How.SYSCALLS))
    assert by_gdb.missing is not None
    assert by_gdb.missing.reason is Reason.NOT_PERMITTED
    assert "debuggers.conf" in by_gdb.missing.detail
    assert "wait_for_neighbour" in functions(by_pystack)
    assert "without native frames" in by_pystack.remark
    assert calls.syscalls is not None, calls.missing
    assert any("nanosleep" in each.call for each in calls.syscalls.waiting)


@pytest.mark.needs("gdb")
def test_closer_looks_with_the_drop_in_for_debuggers(job: subprocess.Popen[str]) -> None:
    """Native frames with their names, by gdb and by pystack."""
    with running_agent(UNHANG_AGENT_DEBUGGERS="true", drop_in="debuggers") as agent:
        by_gdb, by_pystack = (deep(agent, job.pid, how) for how in (How.GDB, How.PYSTACK))
    assert any("nanosleep" in name for name in functions(by_gdb))
    assert by_pystack.stacks is not None
    assert by_pystack.stacks.native
    assert "wait_for_neighbour" in functions(by_pystack)
    assert by_pystack.remark == ""
