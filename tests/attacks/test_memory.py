"""Memory: what a hostile rank, file or agent sends is read within a bound, or refused in words."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from shared.missing import Missing, Reason
from shared.snapshot import NodeSnapshot, RankSnapshot
from shared.trace import Trace
from tests.agent.processes import rank_environment, running, until
from tests.attacks.hostile_server import SHAPES
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[2]
MEMORY_HIGH = 512 * 1024 * 1024
"""Of deploy/systemd/unhang-agent.service; at twice that the kernel kills the agent."""
PORT = 29491


@contextmanager
def an_agent(folder: Path) -> Iterator[tuple[str, int]]:
    """Run an agent in a process of its own; gives its URL and its process id."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = (sys.executable, "-m", "cli", "agent", "--listen", f"127.0.0.1:{port}")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "UNHANG_AGENT_BEAT_SECONDS": "0"}
    with open(folder / "agent.log", "w") as log:
        agent = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=log, stdout=log)
    try:
        until(lambda: _answers(url), bool)
        yield url, agent.pid
        assert agent.poll() is None, "the agent has died"
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def look(folder: Path, *served: tuple[str, float], pid_of: int = 0) -> tuple[tuple[RankSnapshot, ...], int]:
    """Look at ranks that serve so many megabytes of these shapes; return the ranks and the agent's peak."""
    sockets = folder / "unhang-test"
    sockets.mkdir()
    with ExitStack() as stack:
        for rank, (shape, megabytes) in enumerate(served):
            program = Path(__file__).with_name("hostile_server.py")
            command = (sys.executable, str(program), str(sockets), shape, str(megabytes))
            environment = rank_environment(rank, port=PORT, world_size=len(served))
            stack.enter_context(running(command=command, env=environment))
        url, pid = stack.enter_context(an_agent(folder))
        asked = {"job": f"127.0.0.1:{PORT}", "stacks": "none", "timeout": 10}
        answer = httpx.get(f"{url}/v1/snapshot", params=asked, timeout=60)
        assert answer.status_code == 200, answer.text
        return NodeSnapshot.model_validate_json(answer.content).ranks, peak_bytes(pid)


def told(rank: RankSnapshot) -> Missing | Trace:
    """What a rank's recorder gave."""
    return rank.recorder


@pytest.mark.ptrace
@pytest.mark.parametrize("megabytes", [7.9, 30.0, 60.0])
def test_eight_hostile_ranks_leave_the_agent_its_memory(tmp_path: Path, megabytes: float) -> None:
    """Each has another way to make much of little; the ninth rank is honest and is heard."""
    shapes = [shape for shape in SHAPES if shape != "honest"]
    ranks, peak = look(tmp_path, *((shape, megabytes) for shape in shapes), ("honest", 0.5))
    assert len(ranks) == len(shapes) + 1
    assert peak < MEMORY_HIGH, f"{peak / 2**20:.0f} MiB"
    honest = told(ranks[-1])
    assert isinstance(honest, Trace)
    assert len(honest.signatures) > 1000
    for shape, rank in zip(shapes, ranks, strict=False):
        silence = told(rank)
        if megabytes > 8 and shape != "wide":
            assert isinstance(silence, Missing), shape
            assert silence.reason in (Reason.REFUSED, Reason.UNREADABLE, Reason.TIMED_OUT), silence


@pytest.mark.ptrace
def test_a_record_of_twenty_thousand_operations_is_read(tmp_path: Path) -> None:
    """No two of them of one shape: that much may be kept, of two ranks at a time."""
    ranks, peak = look(tmp_path, ("honest", 6.4), ("honest", 6.4))
    for rank in ranks:
        trace = told(rank)
        assert isinstance(trace, Trace), trace
        assert max(trace.op_id) > 19_000
    assert peak < MEMORY_HIGH, f"{peak / 2**20:.0f} MiB"
