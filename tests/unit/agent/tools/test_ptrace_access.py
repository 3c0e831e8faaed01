"""Whether we may read a process is told before it is tried: real processes of ours and of others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.ptrace_access import permission_advice, trace_obstacle
from agent.tools.pyspy import dump_stacks
from shared.missing import Reason
from tests.build.processes.processes import running, until

NOBODY = 65534
BECOME_NOBODY = f"import os\nos.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
"""From here on; nobody may not even read our Python."""
ASK = f"""
import sys
from agent.proc.procfs import ProcFs
from agent.tools.ptrace_access import trace_obstacle
{BECOME_NOBODY}
print(trace_obstacle(ProcFs(), int(sys.argv[1])))
"""


def ask_as_nobody(pid: int) -> str:
    """Ask as a user without any rights."""
    command = [sys.executable, "-c", ASK, str(pid)]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()


@pytest.mark.ptrace
def test_process_that_may_be_looked_at() -> None:
    """Nothing stands in the way, and nobody is stopped to find that out."""
    with running() as process:
        assert trace_obstacle(ProcFs(), process.pid) is None
        assert until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "S")
    assert trace_obstacle(ProcFs(), process.pid) is None  # it is gone: that is for others to tell


@pytest.mark.root
def test_process_of_another_user() -> None:
    """The advice names both users and the capability."""
    with running() as process:
        told = ask_as_nobody(process.pid)
    assert told == f"process {process.pid} belongs to uid 0, the agent runs as uid {NOBODY}: give it CAP_SYS_PTRACE"


@pytest.mark.root
def test_process_that_may_not_be_dumped() -> None:
    """A process can forbid it, to its own user as well; one that has changed its user has."""
    with running(BECOME_NOBODY + "import time\nprint('ready', flush=True)\ntime.sleep(600)\n") as process:
        told = ask_as_nobody(process.pid)
    assert "PR_SET_DUMPABLE" in told or "ptrace_scope" in told


@pytest.mark.parametrize(
    ("scope", "told"), [("1", "only parents"), ("2", "only processes with CAP_SYS_PTRACE"), ("3", "rebooted")]
)
def test_words_of_yama(tmp_path: Path, scope: str, told: str) -> None:
    """Each scope has a remedy of its own, the strictest none."""
    (tmp_path / "scope").write_text(scope + "\n")
    advice = permission_advice(ProcFs(), os.getpid(), tmp_path / "scope")
    assert told in advice
    assert ("sysctl" in advice) is (scope != "3")


@pytest.mark.ptrace
def test_no_tool_is_started_where_it_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason comes from us, at once."""
    monkeypatch.setattr("agent.tools.pyspy.trace_obstacle", lambda procfs, pid: "because")
    with running() as process, pytest.raises(Unavailable, match="because") as refused:
        dump_stacks(ProcFs(), process.pid, Path("/bin/false"), native=False, deadline=Deadline(5))
    assert refused.value.reason is Reason.NOT_PERMITTED
