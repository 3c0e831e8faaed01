"""An agent that is not root, with the two capabilities of its unit, sees another user's rank whole."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.proc.procfs import ProcFs
from shared.missing import Missing
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks
from shared.wire.trace import Trace
from tests.build.processes.processes import HERE, rank_environment, running, until
from tests.unit.agent.sources.recorder.test_recorder_source import SERVER, dump, entry

pytestmark = [pytest.mark.root, pytest.mark.ptrace, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[3]
OWNER, AGENT = 61003, 61004

BECOME_OWNER = f"""
import json, os, socket, sys, time
os.setgroups([]); os.setgid({OWNER}); os.setuid({OWNER}); os.umask(0o077)
"""
"""Runs as another user from here on, who may not even read our Python. The kernel guards such a process more."""

LOOK = """
import sys
from agent.agent import Agent, RankFilter
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
print(Agent(AgentSettings(host_name="here")).snapshot(RankFilter(job=sys.argv[1]), LookDepth()).model_dump_json())
"""


def look(job: str, capabilities: str, program: str = LOOK) -> NodeSnapshot:
    """Look at a job as a user that owns nothing, with some capabilities."""
    identity = ("--reuid", str(AGENT), "--regid", str(AGENT), "--clear-groups")
    sets = (f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}")
    command = ("setpriv", *identity, *sets, "--no-new-privs", sys.executable, "-c", program, job)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return NodeSnapshot.model_validate_json(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that only the job's user may enter."""
    folder = tmp_path / "unhang-owner"
    folder.mkdir(mode=0o700)
    os.chown(folder, OWNER, OWNER)
    for parent in (*list(tmp_path.parents)[:3], tmp_path):
        if parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def test_agent_with_its_two_capabilities_sees_everything(folder: Path) -> None:
    """Environment, memory, descriptors, a log that only its owner may read, and the recorder's socket."""
    answers = json.dumps({"/handler/": json.dumps(["fr_trace_json"]), "/handler/fr_trace_json": dump(entry(1))})
    server = SERVER.replace("server.listen()", "os.chmod(path, 0o666); server.listen()")
    log = folder / "train.log"
    program = f"{BECOME_OWNER}\nos.dup2(os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT, 0o600), 2)\n"
    command = (sys.executable, "-c", program + server, str(folder), "honest", answers)
    with running(command=command, env=rank_environment(0, port=29431)) as process:
        log.write_text("all is well\n")
        (rank,) = look(f"{HERE}:29431", "-all,+sys_ptrace,+dac_read_search").ranks
        assert rank.identity.pid == process.pid
    assert isinstance(rank.stacks, Stacks), rank.stacks
    assert isinstance(rank.recorder, Trace), rank.recorder
    assert not isinstance(rank.fds, Missing)
    assert not isinstance(rank.logs, Missing)
    assert rank.logs.files[0].lines == ("all is well",)


def test_agent_without_capabilities_says_what_it_lacks(folder: Path) -> None:
    """Other users' processes cannot even be told to be ranks."""
    with running(
        BECOME_OWNER + "print('ready', flush=True)\nimport time; time.sleep(600)", env=rank_environment(0, port=29432)
    ):
        found = look(f"{HERE}:29432", "-all")
    assert found.ranks == ()
    (missing,) = found.missing
    assert missing.reason == "not_permitted"
    assert "CAP_SYS_PTRACE" in missing.detail


SLOW_SPY = """#!{python}
import ctypes, os, sys, time
pid = int(sys.argv[sys.argv.index("--pid") + 1])
open({trigger!r}, "w").close()
def state():
    return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0]
while state() != "D" or not open(f"/proc/{{pid}}/task/{{pid}}/children").read():
    time.sleep(0.01)
ptrace = ctypes.CDLL(None).ptrace
ptrace(16, pid, None, None)  # PTRACE_ATTACH
os.waitpid(pid, 0x40000000)  # __WALL
ptrace(17, pid, None, None)  # PTRACE_DETACH
"""
"""Attaches just when the process has begun to be blocked in the kernel, as py-spy may by bad luck; by its child, for a
page that is read blocks it for a moment."""

BLOCKED_SOON = """
os.mkfifo(sys.argv[1]); os.chmod(sys.argv[1], 0o666)
print('ready', flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, sys.argv[1], os.O_RDONLY, 0)])
time.sleep(600)
"""


def test_late_spy_leaves_nobody_stopped_whom_the_agent_may_not_wake(folder: Path, tmp_path: Path) -> None:
    """Killed at its deadline, it would leave a SIGSTOP behind that only root could take back."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    trigger, fifo = open_to_all / "trigger", open_to_all / "fifo"
    spy = open_to_all / "py-spy"
    spy.write_text(SLOW_SPY.format(python=sys.executable, trigger=str(trigger)))
    spy.chmod(0o755)
    command = (sys.executable, "-c", BECOME_OWNER + BLOCKED_SOON, str(fifo), str(trigger))
    with running(command=command, env=rank_environment(0, port=29433)) as process:
        program = LOOK.replace('host_name="here"', f'host_name="here", py_spy={str(spy)!r}, look_timeout_seconds=12')
        program = program.replace("LookDepth()", 'LookDepth("native")')  # the one look that attaches
        (rank,) = look(f"{HERE}:29433", "-all,+sys_ptrace,+dac_read_search", program).ranks
        assert isinstance(rank.stacks, Missing)
        assert (rank.stacks.reason, trigger.exists()) == ("timed_out", True)
        with fifo.open("w"):
            until(lambda: ProcFs().fields(process.pid, "status"), lambda s: s["State"][0] == "S")
        time.sleep(0.5)
        status = ProcFs().fields(process.pid, "status")
        assert (status["State"][0], status["TracerPid"]) == ("S", "0")
