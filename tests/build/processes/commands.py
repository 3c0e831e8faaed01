"""Real `unhang` processes (most forked from a warm one), and plain Python processes that look like ranks to them.

The ranks have numbers that no other job has, and the agent is told to see those alone: whatever else runs on the
machine is left out.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from tests.build.processes.warm import Done, Forked, run, start

REPOSITORY = Path(__file__).resolve().parents[3]
SECONDS = 60.0

FIRST = 1_000 + os.getpid() % 20_000 * 6
SECOND, OTHER, NOBODY = FIRST + 1, FIRST + 2, FIRST + 3
SLEEPER, LOCKED_OUT = FIRST + 4, FIRST + 5
"""Ranks of this run of the tests: another run beside it has other ones, and no real job is likely to."""

ASLEEP = """
import sys, time
def wait_for_quota():
    print("ready", flush=True)
    time.sleep(86_400)
wait_for_quota()
"""

LOCKED = """
import threading
def wait_for_turn():
    turn = threading.Lock()
    turn.acquire()
    print("ready", flush=True)
    turn.acquire()
wait_for_turn()
"""
"""Its Python stack does not say what holds it: C code that the user called. The native one does."""


def command(*arguments: str) -> list[str]:
    """Return the command line of this checkout's `unhang`."""
    start = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from cli.main import main; main()"
    return [sys.executable, "-c", start, *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without what concerns `unhang` or ranks, plus `more`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG_")}
    for name in ("PYTHONPATH", "NO_COLOR", "COLUMNS", "RANK", "WORLD_SIZE"):
        ours.pop(name, None)
    return {**ours, **(more or {})}


def started(*arguments: str, env: Mapping[str, str] | None = None, executed: bool = False) -> "Started":
    """Start `unhang`, its streams being pipes; a fork, or an interpreter of its own where `executed`."""
    return Started(arguments, environment(env), executed)


class Started:
    """An `unhang` that runs, with pipes for all that it reads and writes. It has ended when its block does."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], executed: bool) -> None:
        (read, into), (out, write), (err, complain) = (os.pipe() for _ in range(3))
        theirs = [read, write, complain]
        self.stdin, self.stdout, self.stderr = open(into, "w"), open(out), open(err)  # noqa: SIM115 - closed by `close`
        self._process = (
            subprocess.Popen(command(*arguments), env=env, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2])
            if executed
            else start(arguments, environment=env, streams=theirs)
        )
        for end in theirs:
            os.close(end)

    @property
    def returncode(self) -> int | None:
        """Its status, once that was taken."""
        return self._process.returncode

    def poll(self) -> int | None:
        """Return its status, or None while it lives."""
        return self._process.poll()

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for its status. Raises `subprocess.TimeoutExpired`."""
        return self._process.wait(seconds)

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def communicate(self, seconds: float = SECONDS) -> tuple[str, str]:
        """Return all that it writes until it ends. Raises `subprocess.TimeoutExpired`."""
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(seconds)
            finally:
                self.send_signal(signal.SIGKILL)
        return texts[0].result(), texts[1].result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it, if it is there, and close the pipes."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                stream.close()


def unhang(*arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Run `unhang` to its end; executed, not forked, where `env` says how Python is to start."""
    if any(name.startswith("PYTHON") for name in env or ()):
        return _executed(*arguments, env=env, cwd=cwd)
    return run(arguments, environment=environment(env), directory=cwd or Path.cwd(), seconds=SECONDS)


def _executed(*arguments: str, env: Mapping[str, str] | None, cwd: Path | None) -> Done:
    done = subprocess.run(
        command(*arguments),
        env=environment(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def unhang_on_terminal(*arguments: str, env: Mapping[str, str] | None = None, executed: bool = False) -> str:
    """Run `unhang` with a terminal of 80 columns as its output, and return all that it showed."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = _start_on_terminal(arguments, environment({"TERM": "xterm-256color", **(env or {})}), theirs, executed)
    os.close(theirs)
    try:
        return b"".join(_read_all(ours)).decode()
    finally:
        os.close(ours)
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)


def _start_on_terminal(
    arguments: Sequence[str], env: Mapping[str, str], terminal: int, executed: bool
) -> "subprocess.Popen[bytes] | Forked":
    if not executed:
        return start(arguments, environment=env, streams=[terminal] * 3)
    return subprocess.Popen(
        command(*arguments), env=env, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )


def _read_all(terminal: int) -> Iterator[bytes]:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and select.select([terminal], [], [], 1.0) is not None:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # EIO: the last one on the other side has closed it
            return
        if not data:
            return
        yield data


class Rank(NamedTuple):
    """A process that looks like a rank."""

    rank: int
    pid: int


class Job(NamedTuple):
    """A job of such ranks, and the environment in which `unhang` sees them alone."""

    name: str
    ranks: tuple[Rank, ...]
    env: dict[str, str]


@contextmanager
def sleeping_job(
    name: str, ranks: Sequence[int], *, log: Path, programs: Mapping[int, str] | None = None
) -> Iterator[Job]:
    """Run processes that sleep as ranks of a job, or do what `programs` says, and end them."""
    processes = [_start_rank(name, rank, log, (programs or {}).get(rank, ASLEEP)) for rank in ranks]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        only = {"UNHANG_AGENT_ONLY_RANKS": ",".join(map(str, ranks))}
        yield Job(name, tuple(Rank(r, p.pid) for r, p in zip(ranks, processes, strict=True)), only)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _start_rank(name: str, rank: int, log: Path, program: str) -> subprocess.Popen[bytes]:
    variables = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    script = log.with_name(f"rank_{rank}.py")
    script.write_text(program, encoding="ascii")
    with log.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, str(script)],
            env=environment({**variables, "TORCHELASTIC_RUN_ID": name, "MASTER_ADDR": "localhost"}),
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
