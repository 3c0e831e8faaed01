"""The simulated agents of a whole job, in two processes, a few in one, for as long as somebody asks them."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import trustme

from tests.bench.jobs import REPOSITORY
from tests.bench.simulated.job import PER_NODE, SimulatedJob
from tests.bench.simulated.nodes import stopped_before
from tests.bench.simulated.servers import Authority, Report, Task, url_of
from tests.build.processes.ports import free_port

_PROCESSES = 2
_ENOUGH_FOR_TWO = 64
"""Agents; fewer are one process, which most of the time waits."""
_SPARE_FILES = 1024
"""Open files beside the listeners: connections."""
_TO_MAKE_READY_NS = 3_600_000_000_000
"""Answers of a job that trains are made beforehand, and its records must be young still when they are asked for."""


class Farm:
    """The agents, wherever their processes are."""

    def __init__(self, task: Task, processes: "Sequence[subprocess.Popen[str]]") -> None:
        self.task = task
        self._processes = processes

    @property
    def addresses(self) -> list[str]:
        """The URL of every agent, in the order of the nodes."""
        return [url_of(self.task, number) for number in range(self.task.nodes)]

    def begin(self) -> None:
        """Count anew, and give first looks again."""
        for process in self._processes:
            assert _asked(process, "begin") == "begun"

    def report(self) -> Report:
        """What all of them were asked and sent since `begin`."""
        whole = Report()
        for process in self._processes:
            part = Report(**json.loads(_asked(process, "report")))
            whole.received_bytes += part.received_bytes
            whole.sent_bytes += part.sent_bytes
            whole.connections += part.connections
            whole.cpu_seconds += part.cpu_seconds
            for path, count in part.requests.items():
                whole.requests[path] = whole.requests.get(path, 0) + count
        return whole


@contextmanager
def agents(nodes: int, *, moving: bool = False, faulty: bool = False, tls: bool = False) -> Iterator[Farm]:
    """Run the agents of a job on so many nodes. `faulty`: of 1,024, ten do not answer and five are slow."""
    raise_file_limit(nodes)
    now_ns = time.time_ns()
    stopped_ns = now_ns + _TO_MAKE_READY_NS if moving else stopped_before(now_ns)
    task = Task(nodes=nodes, port=free_port(), stopped_ns=stopped_ns, moving=moving)
    if faulty:
        mute, unreachable, slow = _troubled(SimulatedJob(nodes))
        task = task.model_copy(update={"mute": mute, "unreachable": unreachable, "slow": slow})
    if tls:
        task = task.model_copy(update={"authority": _authority()})
    count = _PROCESSES if nodes >= _ENOUGH_FOR_TWO else 1
    processes = [_start(task, range(first, nodes, count)) for first in range(count)]
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the simulated agents have not started; see what they wrote to standard error")
        yield Farm(task, processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _start(task: Task, numbers: Sequence[int]) -> "subprocess.Popen[str]":
    mine = task.model_copy(update={"numbers": tuple(numbers)})
    command = [sys.executable, "-m", "tests.bench.simulated.servers"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(mine.model_dump_json() + "\n")
    process.stdin.flush()
    return process


def _asked(process: "subprocess.Popen[str]", command: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(command + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def _authority() -> Authority:
    made = trustme.CA()
    return Authority(certificate=made.cert_pem.bytes().decode(), key=made.private_key_pem.bytes().decode())


def _troubled(job: SimulatedJob) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Fifteen of 1,024 nodes, spread over the job, none the culprit's: five mute, five unreachable, five slow."""
    count = max(15, 15 * job.nodes // 1024)
    others = [number for number in range(job.nodes) if number != job.culprit // PER_NODE]
    chosen = [others[at * len(others) // count] for at in range(count)]
    return tuple(chosen[0::3]), tuple(chosen[1::3]), tuple(chosen[2::3])


def raise_file_limit(nodes: int) -> None:
    """Let each process open a file per agent. Raises OSError with advice where that is not allowed."""
    needed = nodes + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OSError(f"{nodes} agents need {needed} open files, and the hard limit is {hard}: `ulimit -Hn {needed}`")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
