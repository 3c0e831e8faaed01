"""`unhang look` on this machine, through a collector, and where it is not possible."""

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from cli.main import unhang as unhang_group
from cli.sources.job_source import DeepChoice
from cli.tables.deep_looks import deep_table
from shared.errors import NotFound
from shared.wire.debug_output import DeepLook, How, SyscallTrace
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.processes.commands import FIRST, NOBODY, REPOSITORY, Job, unhang
from tests.unit.cli.sources.test_remote import problem, remote

CASE = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"


@pytest.mark.needs("strace")
@pytest.mark.ptrace
def test_on_this_machine(job: Job) -> None:
    """What the rank waits for in the kernel, with nothing set beforehand."""
    done = unhang("look", "--rank", str(FIRST), "--with", "syscalls", "--seconds", "0.3", "--json", env=job.env)
    assert (done.status, done.err) == (0, "")
    assert "sleep" in json.loads(done.out)["syscalls"]["waiting"][0]["call"]


@pytest.mark.ptrace
def test_text_is_for_people(job: Job) -> None:
    """The rank's own frame is there, and no control character."""
    done = unhang("look", "--rank", str(FIRST), "--with", "pystack", env=job.env)
    assert done.status == 0, done.err
    assert f"rank_{FIRST}.py" in done.out
    assert all(line.isprintable() for line in done.out.splitlines())


def test_unknown_rank(job: Job) -> None:
    """Told in a sentence, status 1."""
    done = unhang("look", "--rank", str(NOBODY), env=job.env)
    assert done.status == 1
    assert f"no agent sees rank {NOBODY}" in done.err


def test_files_hold_no_process(tmp_path: Path) -> None:
    """It is said what they may hold."""
    result = CliRunner().invoke(unhang_group, ["look", "--rank", "0", "--from", str(CASE)])
    assert result.exit_code == 1
    assert "unhang core" in result.stderr


@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        (DeepChoice("a", 3, How.GDB), {"how": "gdb", "seconds": "3"}),
        (DeepChoice("a", 3, How.PYSTACK, child=4242), {"how": "pystack", "seconds": "3", "child": "4242"}),
    ],
)
def test_through_a_collector(choice: DeepChoice, asked: dict[str, str]) -> None:
    """One request, answered when the tool is done; an agent that may not is no failure of the request."""
    missing = {"source": "gdb", "reason": "not_enabled", "detail": "set UNHANG_AGENT_DEBUGGERS=true"}

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.url.path, dict(request.url.params)) == ("/v1/jobs/a/ranks/3/deep", asked)
        return httpx.Response(200, json={"rank": 3, "how": choice.how, "missing": missing})

    assert remote(answer).look_closely(choice).missing is not None
    with pytest.raises(NotFound):
        remote(lambda _: problem(404, "no agent sees rank 3")).look_closely(choice)


def test_threads_at_one_place_are_one_block() -> None:
    """A hundred idle worker threads are one line."""
    frames = (Frame("start_thread", "libc.so.6", 0, native=True), Frame("wait\x1b[2J", "libgomp.so", 0, native=True))
    threads = [Thread(tid=100 + n, name="omp", frames=(0, 1)) for n in range(100)]
    stacks = Stacks(pid=7, frames=frames, threads=(Thread(tid=7, name="python", frames=(0,)), *threads))
    shown = deep_table(DeepLook(rank=0, how=How.GDB, stacks=stacks))
    assert len(shown.splitlines()) == 8
    assert "\x1b" not in shown
    assert deep_table(DeepLook(rank=0, how=How.SYSCALLS, syscalls=SyscallTrace(seconds=1.0))).startswith("rank 0")
