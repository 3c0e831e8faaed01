"""An agent that is not root, with the two capabilities of its unit, sees another user's rank whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.missing import Missing
from shared.snapshot import NodeSnapshot
from shared.stacks import Stacks
from shared.trace import Trace
from tests.agent.processes import rank_environment, running
from tests.agent.test_recorder import HANDLERS, SERVER, dump, entry

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

REPOSITORY = Path(__file__).resolve().parents[2]
OWNER, AGENT = 61003, 61004

BECOME_OWNER = f"""
import json, os, socket, sys, time
os.setgroups([]); os.setgid({OWNER}); os.setuid({OWNER}); os.umask(0o077)
"""
"""Runs as another user from here on, who may not even read our Python. The kernel guards such a process more."""

LOOK = """
import sys
from agent.agent import Agent, Choice
from agent.settings import AgentSettings
from agent.sources.source import Question
print(Agent(AgentSettings(host_name="here")).snapshot(Choice(job=sys.argv[1]), Question()).model_dump_json())
"""


def look(job: str, capabilities: str) -> NodeSnapshot:
    """Look at a job as a user that owns nothing, with some capabilities."""
    identity = ("--reuid", str(AGENT), "--regid", str(AGENT), "--clear-groups")
    sets = (f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}")
    command = ("setpriv", *identity, *sets, "--no-new-privs", sys.executable, "-c", LOOK, job)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
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
    answers = json.dumps({"/handler/": HANDLERS, "/handler/fr_trace_json": dump(entry(1))})
    server = SERVER.replace("server.listen()", "os.chmod(path, 0o666); server.listen()")
    log = folder / "train.log"
    program = f"{BECOME_OWNER}\nos.dup2(os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT, 0o600), 2)\n"
    command = (sys.executable, "-c", program + server, str(folder), "honest", answers)
    with running(command=command, env=rank_environment(0, port=29431)) as process:
        log.write_text("all is well\n")
        (rank,) = look("127.0.0.1:29431", "-all,+sys_ptrace,+dac_read_search").ranks
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
        found = look("127.0.0.1:29432", "-all")
    assert found.ranks == ()
    (missing,) = found.missing
    assert missing.reason == "not_permitted"
    assert "CAP_SYS_PTRACE" in missing.detail
