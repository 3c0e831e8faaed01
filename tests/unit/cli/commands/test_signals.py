"""Ctrl-C and closed pipes: nothing is left behind, nothing is complained about."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.build.processes.commands import REPOSITORY, Job, command, environment, started, unhang
from tests.build.processes.processes import is_alive

CASE = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"


def wait_for(file: Path) -> int:
    """Return the process id that a program writes into `file` when it has started."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return int(text.split()[0])
        time.sleep(0.05)
    raise AssertionError("it did not start")


def tracer_of(pid: int) -> int:
    """Return who traces a process; 0: nobody."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("TracerPid:")[2].split()[0])


def state_of(pid: int) -> str:
    """Return the letter of a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("number", "status", "executed"),
    [(signal.SIGINT, 130, True), (signal.SIGTERM, 143, True), (signal.SIGHUP, 129, False)],
    ids=lambda each: str(each),
)
def test_interrupted_while_it_looks(
    number: signal.Signals, status: int, executed: bool, job: Job, tmp_path: Path
) -> None:
    """A helper program that never ends is gone when the command is."""
    assert_ends_with_its_helper(
        "diagnose", "--timeout", "25", number=number, status=status, executed=executed, job=job, folder=tmp_path
    )


def test_snapshot_interrupted_while_it_looks(job: Job, tmp_path: Path) -> None:
    """As above, though it asks the agent directly."""
    asked = ("snapshot", "-o", "-", "--looks", "1")
    assert_ends_with_its_helper(*asked, number=signal.SIGTERM, status=143, executed=False, job=job, folder=tmp_path)


def assert_ends_with_its_helper(
    *arguments: str, number: signal.Signals, status: int, executed: bool, job: Job, folder: Path
) -> None:
    """Interrupt a command while a py-spy runs that never ends."""
    begun, program = folder / "pid", folder / "py-spy"
    program.write_text(f"#!/bin/sh\necho $$ >> {begun}\nexec sleep 300\n", encoding="ascii")
    program.chmod(0o755)
    env = {**job.env, "UNHANG_AGENT_PY_SPY": str(program)}
    with started(*arguments, env=env, executed=executed) as process:
        wait_for(begun)
        process.send_signal(number)
        out, err = process.communicate(30)
    assert (process.returncode, out) == (status, "")
    assert "Traceback" not in err
    assert [pid for pid in map(int, begun.read_text().split()) if is_alive(pid)] == []
    assert all(is_alive(rank.pid) for rank in job.ranks)


@pytest.mark.needs("gdb", "strace")
@pytest.mark.ptrace
@pytest.mark.parametrize("how", ["gdb", "syscalls"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_interrupted_while_it_traces(how: str, number: signal.Signals, status: int, job: Job) -> None:
    """The rank runs on, untraced, as soon as the command is gone."""
    rank = job.ranks[0]
    with started("look", "--rank", str(rank.rank), "--with", how, "--seconds", "20", env=job.env) as process:
        while not tracer_of(rank.pid):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(number)
        out, err = process.communicate(30)
    assert (process.returncode, out) == (status, ""), err
    assert tracer_of(rank.pid) == 0
    deadline = time.monotonic() + 30
    while (state := state_of(rank.pid)) != "S":
        assert time.monotonic() < deadline, state
        time.sleep(0.01)


def test_interrupted_while_it_waits(job: Job) -> None:
    """Between two looks it ends at once."""
    with started("diagnose", "-v", "--interval", "50", "--timeout", "100", env=job.env) as process:
        while "waiting" not in process.stderr.readline():
            assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - began < 25


def test_reader_that_goes_away() -> None:
    """`unhang ... | head -1` says nothing and ends as SIGPIPE ends others."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            command("stacks", "--from", str(CASE), "--format", "json"),
            env=environment(),
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_full_disk() -> None:
    """An answer that cannot be written is a failure that is told, not a traceback."""
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb") as full:  # never made anew where it is missing
        done = subprocess.run(
            command("diagnose", "--from", str(CASE)),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_quiet_failures_have_no_traceback(tmp_path: Path) -> None:
    """What is refused is one or two lines."""
    done = unhang("stacks", "--from", str(tmp_path / "gone"))
    assert done.status == 1
    assert len(done.err.splitlines()) <= 3


def test_threads_are_known_by_name() -> None:
    """Whoever ends a question waits for the agent's threads, which go by their names."""
    from agent.deadline import Deadline, ThreadPool
    from cli.sources.helpers import Helpers

    looking: list[bool] = []
    helpers = Helpers()
    ThreadPool().run({"x": lambda: looking.append(helpers._looking())}, Deadline(5.0))
    assert looking == [True]
    assert not helpers._looking()


def test_sigterm_ends_a_command_in_which_sigint_is_ignored() -> None:
    """As in what a script begins with `&`: `kill` had no effect on its `unhang watch`."""
    ignoring = ["env", "--ignore-signal=INT", *command("watch", "--collector", "http://127.0.0.1:9")]
    with subprocess.Popen(ignoring, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "Ctrl-C" in process.stderr.readline()
            process.terminate()
            assert process.wait(timeout=30) == 143
        finally:
            process.kill()
