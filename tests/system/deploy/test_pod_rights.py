"""What the DaemonSet grants is enough to look at other people's processes, and not more than to look.

Applied: number 0, the capabilities, no new privileges, and py-spy with the file capability that the image gives it.
Not applied: the container's mounts, devices, system call filter and control group.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.build.processes.waiting import until_it_answers
from tests.system.deploy import test_agent_rights as unit
from tests.system.deploy import test_containers
from tests.system.deploy.test_kubernetes import main_container
from tests.system.deploy.units import RUN_SECONDS

pytestmark = [pytest.mark.root, pytest.mark.ptrace, pytest.mark.needs("setpriv", "setcap")]

folder, job, py_spy_of_the_image = unit.folder, unit.job, test_containers.py_spy_of_the_image
"""The last with its capability, which `allowPrivilegeEscalation: false` must not take away."""


def command_in_the_pod(program: Sequence[str | Path]) -> tuple[str | Path, ...]:
    """Return the command that runs `program` with the rights of the agent's container; needs root."""
    granted = main_container("cluster", "agent")["securityContext"]
    capabilities = "".join(f",+{name.lower()}" for name in granted["capabilities"]["add"])
    identity = ("--reuid", str(granted["runAsUser"]), "--regid", str(granted["runAsGroup"]), "--clear-groups")
    return ("setpriv", *identity, "--inh-caps=-all", f"--bounding-set=-all{capabilities}", "--no-new-privs", *program)


@pytest.fixture
def agent(py_spy_of_the_image: Path) -> Iterator[str]:
    """The agent itself with the container's rights; its address."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
    words = ("agent", "--listen", address, "--py-spy", py_spy_of_the_image)
    command = command_in_the_pod((sys.executable, "-c", unit.AGENT, *words))
    with subprocess.Popen(command, env={**os.environ, **unit.QUIET}) as process:
        until_it_answers(f"http://{address}/healthz", process)
        yield f"http://{address}"
        process.terminate()


def test_agent_sees_a_rank_of_another_user(job: subprocess.Popen[str], agent: str) -> None:
    """The whole look: facts of the process, its stack, its descriptors and the end of its log."""
    unit.assert_seen_whole(agent, job.pid)


def test_it_is_root_by_number_alone(job: subprocess.Popen[str], folder: Path) -> None:
    """It cannot write to the job's log, become another user, mount, or send the job a signal."""
    program = (
        "import ctypes, json, os, sys; log, pid = sys.argv[1], int(sys.argv[2]); libc = ctypes.CDLL(None)\n"
        "def fails(what):\n"
        "    try: what()\n"
        "    except OSError: return True\n"
        "    return False\n"
        "tried = [lambda: open(log, 'a'), lambda: os.setuid(1234), lambda: os.kill(pid, 15)]\n"
        "print(json.dumps([*map(fails, tried), libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) != 0]))"
    )
    command = command_in_the_pod((sys.executable, "-c", program, str(folder / "train.log"), str(job.pid)))
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert json.loads(done.stdout) == [True] * 4, done.stderr
    assert job.poll() is None
