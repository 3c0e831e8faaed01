"""What an ordinary user can start to mislead the agent, and the agent that is asked about it."""

import os
import select
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL

from agent.agent import Agent, RankFilter
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
from shared.missing import Missing
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from tests.build.processes.processes import until
from tests.system.deploy.sandbox import command_under

ATTACKER, VICTIM = 61011, 61012
"""An ordinary user, and another one. Their groups have the same numbers."""

SECRET = "line-that-only-its-owner-may-see"

JOB = f"attack-{os.getpid()}"
"""Other tests may run beside these."""
SETTINGS = {"host_name": "here", "beat_seconds": 0, "only_ranks": "0"}
"""The agent is told to see the one rank that there is: it does not search the memory of all ranks of other tests."""

LOOK = f"""
import sys
from agent.agent import Agent, RankFilter
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
agent = Agent(AgentSettings(**{SETTINGS}))
for line in sys.stdin:
    print(agent.snapshot(RankFilter(job=line.strip()), LookDepth(full=True)).model_dump_json(), flush=True)
agent.stop()
"""
LOOK_SECONDS = 120.0

Ask = Callable[[], NodeSnapshot]


def ask_root() -> NodeSnapshot:
    """Ask an agent of root's."""
    agent = Agent(AgentSettings.model_validate(SETTINGS))
    try:
        return agent.snapshot(RankFilter(job=JOB), LookDepth(full=True))
    finally:
        agent.stop()


@contextmanager
def service_agent() -> Iterator[Ask]:
    """An agent in a process with what its unit grants."""
    command = command_under("agent", (sys.executable, "-c", LOOK))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asking, answers = process.stdin, process.stdout
        assert asking is not None and answers is not None

        def ask() -> NodeSnapshot:
            print(JOB, file=asking, flush=True)
            assert select.select([answers], [], [], LOOK_SECONDS)[0], "there was no answer"
            return NodeSnapshot.model_validate_json(answers.readline())

        yield ask
        asking.close()


@contextmanager
def started(
    *command: str | Path,
    user: int = ATTACKER,
    groups: Sequence[int] = (),
    runs: str | None = None,
    stdout: int = subprocess.DEVNULL,
    **variables: str | Path,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command as a user, as if it were rank 0 of the job, until the block ends.

    `runs`: wait until some process of the command runs the program of this name.
    """
    rank = {"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": JOB, **variables}
    process = subprocess.Popen(
        command,
        user=user,
        group=user,
        extra_groups=groups,
        env=rank,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        if runs is not None:
            until(lambda: _running(process.pid, runs), lambda found: found)
        yield process
    finally:
        for pid in _of_session(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _of_session(session: int) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _session_of(pid) == session]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _running(session: int, program: str) -> bool:
    names = [_program_of(pid) for pid in _of_session(session)]
    return program in names


def _program_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").rpartition("/")[2]
    except OSError:
        return ""


def program(folder: Path, name: str, *, owner: int = 0, group: int = 0, bits: int = 0, source: str = "") -> Path:
    """Copy a program and give it to an owner, with set-user-ID or set-group-ID."""
    found = shutil.which(source or name)
    assert found is not None
    copy = folder / name
    shutil.copyfile(os.path.realpath(found), copy)
    os.chown(copy, owner, group)
    copy.chmod(0o755 | bits)
    return copy


SET_USER, SET_GROUP = stat.S_ISUID, stat.S_ISGID


def secret(folder: Path, *, owner: int = 0, group: int = 0, mode: int = 0o600) -> Path:
    """Write a file that not everybody may read."""
    path = folder / "secret.log"
    path.write_text(SECRET + "\n")
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def only_rank(taken: NodeSnapshot) -> RankSnapshot:
    """Return the job's one rank."""
    (rank,) = taken.ranks
    return rank


def refusals(rank: RankSnapshot) -> dict[str, Missing]:
    """Return the sources that have nothing of a rank."""
    parts = (rank.process, rank.stacks, rank.fds, rank.logs, rank.recorder, rank.setup)
    return {part.source: part for part in parts if isinstance(part, Missing)}
