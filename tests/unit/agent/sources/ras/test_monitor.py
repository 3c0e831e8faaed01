"""What RAS tells unasked, by real processes that speak its protocol (as in NCCL 2.29.2's client_support.cc)."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.proc.procfs import ProcFs
from agent.sources.ras import monitor
from agent.sources.ras.monitor import MOST_DEAD, RasMonitor
from tests.build.processes.ports import free_port
from tests.build.processes.processes import find_rank, rank_environment, running
from tests.system.ras.ranks import ras_rank

pytestmark = pytest.mark.ptrace

NEW = "[2025-12-19 13:07:06] PEER_NEW: Process 11 on node 172.16.64.245 managing GPU 1 \n"
DEAD = "[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1 \n"
UNKNOWN = "[2025-12-19 13:07:09] PEER_DEAD: 172.16.64.246<40123> \n"


class Listening:
    """A monitor beside one rank whose RAS tells what is written into a file."""

    def __init__(self, folder: Path, stack: ExitStack, **plan: object) -> None:
        self.events = folder / "events"
        self.events.touch()
        self.port = free_port()
        more = {"port": self.port, "events": str(self.events), **plan}
        process = stack.enter_context(ras_rank(folder, **more))  # type: ignore[arg-type]
        self.ranks = [find_rank(process.pid)]
        self.age = 120.0
        self.monitor = RasMonitor(ProcFs(), "here", clock=lambda: time.time() + self.age)
        stack.callback(self.monitor.close)

    def read(self, *, search: bool = False) -> list[str]:
        if search:
            self.monitor._next_search = 0.0
        self.monitor.read(self.ranks, Deadline(10.0))
        return list(self.monitor.dead)

    def read_until(self, count: int) -> list[str]:
        until = time.monotonic() + 60.0
        while len(found := self.read()) < count and time.monotonic() < until:
            time.sleep(0.02)
        return found

    @property
    def listens(self) -> bool:
        return bool(self.monitor._told)


@pytest.fixture
def stack() -> ExitStack:  # type: ignore[misc]
    """Ends what a test began."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_dead_processes_are_told_as_they_die(tmp_path: Path, stack: ExitStack, address: str) -> None:
    """Also one that RAS knows by its address alone; who joins is no news. Nothing is asked for a second time."""
    one = Listening(tmp_path, stack, address=address)
    assert one.read() == [] and one.listens
    one.events.write_text(NEW + DEAD[:30])
    for _ in range(3):
        assert one.read() == []
    one.events.write_text(NEW + DEAD)
    assert one.read_until(1) == ["172.16.64.245 pid 1524345"]
    since = one.monitor.dead
    one.events.write_text(NEW + DEAD + UNKNOWN + DEAD)
    assert one.read_until(2) == ["172.16.64.245 pid 1524345", ""]
    assert since.items() <= one.monitor.dead.items()


@pytest.mark.parametrize("version", ["2.24.3", "2.27.3", "2.28.9"])
def test_older_versions_are_left_alone(tmp_path: Path, stack: ExitStack, version: str) -> None:
    one = Listening(tmp_path, stack, version=version)
    assert one.read() == [] and not one.listens


def test_whom_it_does_not_know_well_is_left_alone(tmp_path: Path, stack: ExitStack) -> None:
    """Young ranks, until they have made their communicators; whoever shares the port; ranks that have no RAS."""
    one = Listening(tmp_path, stack)
    one.age = 0.0
    assert one.read() == [] and not one.listens
    one.age = 120.0
    assert one.read() == [] and not one.listens, "it is not looked for at each beat"
    assert one.read(search=True) == [] and one.listens
    bare = stack.enter_context(running(env=rank_environment()))
    listening = RasMonitor(ProcFs(), "here")
    listening.read([find_rank(bare.pid)], Deadline(10.0))
    assert listening.dead == {} and not listening._told
    assert monitor.SEARCH_SECONDS >= 30.0
    other = Listening(tmp_path, stack)
    stack.enter_context(ras_rank(tmp_path, port=other.port, rank=1, version="2.27.3", events=str(other.events)))
    assert other.read() == [] and not other.listens


@pytest.mark.parametrize("mode", ["silent", "no_greeting", "endless", "half"])
def test_bad_answers_end_the_connection(tmp_path: Path, stack: ExitStack, mode: str) -> None:
    """Silence, another protocol, a line without end, and one that hangs up: none is waited for."""
    one = Listening(tmp_path, stack, mode=mode)
    begun = time.monotonic()
    one.read()
    while one.listens:
        assert one.read() == [] and time.monotonic() - begun < 60.0
    assert one.monitor.dead == {}


def test_made_up_deaths_are_few(tmp_path: Path, stack: ExitStack) -> None:
    one = Listening(tmp_path, stack)
    one.read()
    one.events.write_text("".join(DEAD.replace("1524345", str(pid)) for pid in range(5000)) + "\0\x1b[2J\n" * 100)
    until = time.monotonic() + 60.0
    while "172.16.64.245 pid 4999" not in one.read() and time.monotonic() < until:
        pass
    assert list(one.monitor.dead) == [f"172.16.64.245 pid {pid}" for pid in range(5000 - MOST_DEAD, 5000)]


def test_it_listens_again_after_the_rank_has_gone(tmp_path: Path, stack: ExitStack) -> None:
    """To another one at the same endpoint."""
    one = Listening(tmp_path, stack)
    one.read()
    assert one.listens
    os.kill(one.ranks[0].stat.pid, signal.SIGKILL)
    until = time.monotonic() + 60.0
    while one.listens and time.monotonic() < until:
        one.read()
    other = stack.enter_context(ras_rank(tmp_path, port=one.port, rank=1, events=str(one.events)))
    one.ranks = [find_rank(other.pid)]
    one.events.write_text(DEAD)
    one.read(search=True)
    assert one.listens and one.read_until(1) == ["172.16.64.245 pid 1524345"]
