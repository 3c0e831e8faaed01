"""A job that a framework starts, as its users do: run, waited for, found and judged on this machine, and ended."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from agent.agent import Agent
from agent.deadline import Deadline
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from cli.sources.agent_here import local_settings
from cli.sources.one_box import ask
from collector.gather.sweep import sweep
from collector.gather.swept import Sweep
from collector.judge.verdict import diagnose
from collector.question import Question
from shared.answer.diagnosis import Diagnosis
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot
from tests.system.live.jobs import END_SECONDS, MARK, START_SECONDS, kill, marked, probe_path

PROGRAMS = Path(__file__).parent / "programs"
SLEEPER = 1
"""The rank that sleeps in `wait_for_quota` and does not come to the step in which the others wait."""

_NO_RECORD = Missing(source="recorder", reason=Reason.NOT_ENABLED, detail="left out by a test")
_INTERVAL_SECONDS = 6.0


class OfOneJob(ProcFs):
    """The processes that one command has started: of all others an agent that is new would search the memory first."""

    def __init__(self, mark: str, first: int) -> None:
        """`mark` is in their environment, where they have not overwritten that; `first` is the command's own."""
        super().__init__()
        self._mark, self._first = mark.encode(), first

    def pids(self) -> list[int]:
        """Return their ids."""
        below: set[int] = set()
        with suppress(psutil.NoSuchProcess):
            below = {child.pid for child in psutil.Process(self._first).children(recursive=True)}
        return sorted(below.union(marked(self._mark)))


class Launched(NamedTuple):
    """A job whose ranks have said that they are about to reach their last step."""

    pids: Mapping[int, int]
    """By rank, as the program itself has it; in a namespace of their own the numbers are others outside."""
    mark: str
    output: Path
    agent: Agent

    def found(self) -> dict[int, Rank]:
        """Return the job's ranks by number, once as many are found as there are."""
        node = self.agent.node
        until = time.monotonic() + START_SECONDS
        while True:
            mine = set(marked(self.mark.encode()))
            ranks = [rank for rank in node.find(Deadline(30.0)).ranks if rank.stat.pid in mine]
            if len(ranks) >= len(self.pids) or time.monotonic() > until:
                assert len({rank.identity.rank for rank in ranks}) == len(ranks), ranks
                return {rank.identity.rank: rank for rank in ranks}

    def judged(self, name: str, *, patience_seconds: float = 0.0) -> Sweep:
        """Diagnose it as `unhang diagnose` does on one box, with looks so far apart that a young wait counts."""
        question = Question(job=name, interval_seconds=_INTERVAL_SECONDS, patience_seconds=patience_seconds)
        return ask(partial(sweep, question), self.agent)


@contextmanager
def launched(
    command: Sequence[str],
    folder: Path,
    *,
    ranks: int = 2,
    probe: bool = True,
    env: Mapping[str, str] | None = None,
    beside_all: bool = False,
) -> Iterator[Launched]:
    """Run a job until the block ends. `folder` receives its output and the words of its ranks.

    `beside_all`: the agent that looks at it sees whatever else runs here, too.
    """
    mark, said, output = uuid.uuid4().hex, folder / "said", folder / "output"
    said.touch()
    said.chmod(0o666)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RANK", "WORLD", "MASTER"))}
    ours = {MARK: mark, "UNHANG_TEST_SAID": str(said), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment = {**inherited, **ours, **({"PYTHONPATH": probe_path()} if probe else {}), **(env or {})}
    with open(output, "wb") as written:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    procfs = None if beside_all else OfOneJob(f"{MARK}={mark}", process.pid)
    try:
        pids = _wait(process, said, output, ranks)
        yield Launched(pids, f"{MARK}={mark}", output, Agent(local_settings(), procfs))
    finally:
        _end(process, f"{MARK}={mark}".encode())


def _wait(process: "subprocess.Popen[bytes]", said: Path, output: Path, ranks: int) -> dict[int, int]:
    until = time.monotonic() + START_SECONDS
    while len(lines := said.read_text().splitlines()) < ranks:
        told = output.read_text(errors="replace")[-4000:]
        assert process.poll() is None, f"it ended with status {process.returncode}; it wrote:\n{told}"
        assert time.monotonic() < until, f"it was not ready in time; {lines}; it wrote:\n{told}"
        time.sleep(0.1)
    return {int(rank): int(pid) for rank, pid in map(str.split, lines)}


def _end(process: "subprocess.Popen[bytes]", entry: bytes) -> None:
    """Kill all of it; launchers first, which would start ranks again. Some of Ray's overwrite their environment."""
    until = time.monotonic() + END_SECONDS
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    for each in below:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    while left := list(marked(entry)):
        assert time.monotonic() < until, f"processes {left} outlived SIGKILL"
        for pid in left:
            kill(pid, entry)
        time.sleep(0.01)


def without_records(swept: Sweep) -> Diagnosis:
    """Judge the same looks as if nobody had prepared the job: without what the probe has made readable."""
    return diagnose(tuple(map(_stripped, swept.snapshots)), swept.expected)


def _stripped(node: NodeSnapshot) -> NodeSnapshot:
    ranks = tuple(rank.model_copy(update={"recorder": _NO_RECORD}) for rank in node.ranks)
    return node.model_copy(update={"ranks": ranks})


def assert_named(diagnosis: Diagnosis) -> None:
    """Rank 1 is the one culprit, where it sleeps."""
    assert len(diagnosis.findings) == 1, diagnosis
    (finding,) = diagnosis.findings
    assert [culprit.rank for culprit in finding.culprits] == [SLEEPER], finding
    assert finding.cause == "user_code", finding
    assert "wait_for_quota" in str(finding.where), finding
