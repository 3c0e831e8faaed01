"""The process that runs trials in the job's own Python: real ranks, and how they end."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from cli.preflight.user_python import program

pytestmark = pytest.mark.live

END_SECONDS = 240.0
LONG_SECONDS = 200.0


class Runner:
    """One of these processes, and what it says."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-u", "-c", program()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.ready = self.read()["ready"]

    def send(self, **order: Any) -> None:
        """Give an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def start(self, name: str, **changed: Any) -> None:
        """Order a trial: rank 0 of one, on the CPU, unless something else is said."""
        usual = {"kind": "collective", "ranks": [0], "gpus": [0], "world": 1, "backend": "gloo", "lead": True}
        self.send(start=name, **{**usual, "store": ["localhost", 0], "bytes": 4096, "seconds": LONG_SECONDS, **changed})

    def read(self) -> dict[str, Any]:
        """Return what it says next."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    @property
    def ranks(self) -> list[psutil.Process]:
        """The processes that it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """One for all tests: each trial is a process group of its own."""
    runner = Runner()
    yield runner
    assert runner.process.stdin is not None and runner.process.stdout is not None
    runner.process.stdin.close()
    assert runner.process.wait(END_SECONDS) == 0
    runner.process.stdout.close()


def test_it_says_what_it_has(runner: Runner) -> None:
    """Versions, and how many GPUs there are."""
    assert {"torch", "cuda", "nccl", "python", "gpus"} <= runner.ready.keys()


def test_two_ranks_that_meet(runner: Runner) -> None:
    """The leading one says its port; both pass, and know how fast it was."""
    runner.start("a", world=2)
    port = runner.read()["port"]
    runner.start("b", ranks=[1], world=2, lead=False, store=["localhost", port])
    answers = {answer["trial"]: answer["done"][0] for answer in (runner.read(), runner.read())}
    assert {name: done["passed"] for name, done in answers.items()} == {"a": True, "b": True}, answers
    assert all(done["bytes_per_second"] > 0 and done["phase"] == "done" for done in answers.values())


def test_the_cpus_compute(runner: Runner) -> None:
    """Without a GPU, matrices are multiplied here."""
    runner.start("c", kind="device")
    (done,) = runner.read()["done"]
    assert done["passed"] and done["multiply_seconds"] > 0


def test_a_rank_that_waits_is_ended_in_time(runner: Runner) -> None:
    """The other one never comes; where it was is said, and no process is left."""
    runner.start("d", world=2, seconds=1.0)
    assert "port" in runner.read()
    answer = runner.read()
    assert (answer["timed_out"], answer["done"][0]["passed"], answer["done"][0]["phase"]) == (True, False, "group")
    assert runner.ranks == []


def test_a_stopped_rank_is_ended_when_asked(runner: Runner) -> None:
    """SIGKILL ends what is stopped."""
    runner.start("e", world=2)
    assert "port" in runner.read()
    (rank,) = runner.ranks
    rank.send_signal(signal.SIGSTOP)
    runner.send(end="e")
    answer = runner.read()
    assert (answer["trial"], answer["timed_out"], answer["done"][0]["passed"]) == ("e", False, False)
    assert "signal 9" in answer["done"][0]["error"]


def test_an_error_is_told(runner: Runner) -> None:
    """The first line of it, and where it happened."""
    runner.start("f", backend="no_such_backend")
    answers = [runner.read()]
    while "done" not in answers[-1]:
        answers.append(runner.read())
    (done,) = answers[-1]["done"]
    assert done["passed"] is False and done["error"]


def test_ranks_end_with_it() -> None:
    """However it ends: the kernel ends them."""
    runner = Runner()
    with runner.process:
        runner.start("g", world=2)
        assert "port" in runner.read()
        ranks = runner.ranks
        runner.process.kill()
        _, alive = psutil.wait_procs(ranks, timeout=END_SECONDS)
    assert ranks and alive == []
