"""Real jobs for tests: started in sessions of their own, waited for by an event, ended to the last process.

A job's processes carry a mark in their environment, so that all of them are found, also those that a launcher
puts into sessions of their own (torchrun does so with each rank), and nothing else is ever touched.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.system.live.becoming import can_show
from tests.system.live.fork_server import Forked, fork_server
from tests.system.live.launchers import LAUNCHERS, Command, Order, Plan, common_environment
from tests.system.live.truths import PROGRAMS, REPOSITORY, read_truth

START_SECONDS = 120.0
"""A job that is not ready by then has failed to start. Importing torch four times on two busy cores takes 20 s."""

END_SECONDS = 20.0
"""Processes that were killed with SIGKILL are gone by then."""

STILL_SECONDS = 0.25
"""A main thread that has not run for so long has reached the place where it stays."""

MARK = "UNHANG_TEST_JOB"

Starter = Callable[[Command, Mapping[str, str], int], Forked]
"""Starts a command of a job with its variables; its text goes to an open file."""


class JobFailed(AssertionError):
    """A test's job did not start, or left something behind; carries the job's own output."""


class Job:
    """One real job: `with Job("recv_ring", directory=tmp_path) as job:` runs it and returns when it is ready."""

    def __init__(
        self,
        program: str,
        *,
        directory: Path,
        probe: bool = False,
        ranks: int = 4,
        launch: str | None = None,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
        forked: bool = False,
        beside: int | None = None,
        recorded: bool = False,
        python: str | None = None,
        starter: Starter | None = None,
    ) -> None:
        """Prepare to run `program` of tests/programs; `directory` receives its output and must exist.

        `recorded`: PyTorch keeps a flight record in the ranks' memory, as it does by default since 2.12. Without that
        and without the probe nothing tells what a rank has issued, as with older versions.
        `wrapper` stands before each command, as `unhang run --` does. Where `forked`, its processes are forks
        of one that has torch, which costs a fifth: see fork_server.py for what is lost by that. A kernel that
        cannot do it executes them. Otherwise its ranks are real interpreters, and torchrun alone, which starts them,
        is a fork unless there is a wrapper. `beside`: a process in whose namespaces forks run.
        `python`: runs the job in the place of ours, with a PyTorch of its own; nothing is a fork then, and nobody waits
        until the ranks are still, for on a device they spin. `starter`: who starts its processes then.
        """
        self.truth = read_truth(program)
        self.mark = uuid.uuid4().hex
        self.directory = directory
        self.probe = probe
        self.ready_lines: list[str] = []
        self._environment = ({} if recorded or probe or wrapper else {"TORCH_FR_BUFFER_SIZE": "0"}) | dict(
            environment or {}
        )
        self._wrapper = wrapper
        assert not (forked and wrapper), "a fork is not what a wrapper starts"
        launch = launch or self.truth.get("launch", "torchrun")
        self._foreign = python is not None
        self._starter = starter
        self._forked = (forked or (launch == "torchrun" and not wrapper and python is None)) and can_show()
        self._forked_ranks = ranks if forked else 0
        self.beside = beside
        self._launched: list[subprocess.Popen[bytes] | Forked] = []
        absent = tuple(self.truth.get("absent", ()))
        name = name or f"{Path(program).name}-{self.mark[:8]}"
        order = Order(PROGRAMS / f"{program}.py", ranks, name, absent, python or sys.executable)
        self._expected_lines: int = self.truth.get("ready", ranks)
        self.plan: Plan = LAUNCHERS[launch](order)
        self._pipe_path = directory / f"ready-{self.mark[:8]}"
        self._pipe = -1

    @property
    def name(self) -> str:
        """The name under which `unhang` finds this job."""
        return self.plan.job

    @property
    def ranks(self) -> dict[int, int]:
        """Process ids by rank, of the ranks that said that they are ready."""
        words = [line.split() for line in self.ready_lines]
        return {int(number): int(pid) for kind, number, pid in (w for w in words if len(w) == 3) if kind == "rank"}

    def outside(self) -> dict[int, int]:
        """Return the same by our own numbers, of ranks that live: where the job runs in a container they are others."""
        if self.beside is None:
            return self.ranks
        ours = {_number_within(pid): pid for pid in self.processes()}
        return {rank: ours[pid] for rank, pid in self.ranks.items() if pid in ours}

    @property
    def output(self) -> str:
        """All that the job has written so far, on both streams."""
        paths = sorted(self.directory.glob(f"output-{self.mark[:8]}-*"))
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def __enter__(self) -> Self:
        """Start it and wait until it says that it is ready."""
        os.mkfifo(self._pipe_path)
        self._pipe = os.open(self._pipe_path, os.O_RDWR | os.O_NONBLOCK)
        try:
            for number, command in enumerate(self.plan.commands):
                self._launched.append(self._start(command, number))
            self._wait_until_ready(time.monotonic() + START_SECONDS)
            if self.truth["kinds"] and not self._foreign:
                self._wait_until_still(time.monotonic() + START_SECONDS)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all of it."""
        self.end()

    def processes(self) -> list[int]:
        """Return the ids of all living processes of this job, launchers and children included."""
        return list(marked(f"{MARK}={self.mark}".encode()))

    def end(self) -> None:
        """Kill every process of this job, stopped ones too, and make sure that none is left.

        A process shows no environment for the instant in which it executes another program: hence a second scan.
        """
        deadline = time.monotonic() + END_SECONDS
        scans_without_any = 0
        while scans_without_any < 2:
            left = self.processes()
            scans_without_any = 0 if left else scans_without_any + 1
            if time.monotonic() > deadline:
                raise JobFailed(f"processes {left} of {self.name} outlived SIGKILL")
            for pid in left:
                kill(pid, f"{MARK}={self.mark}".encode())
            time.sleep(0.01)
        for process in self._launched:
            process.kill()  # its mark may be gone: programs write over their variables
            process.wait(timeout=END_SECONDS)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _start(self, command: Command, number: int) -> subprocess.Popen[bytes] | Forked:
        environment = {
            **common_environment(self.directory),
            **command.environment,
            **self._environment,
            MARK: self.mark,
            "UNHANG_TEST_READY": str(self._pipe_path),
        }
        if self.probe:
            environment["PYTHONPATH"] = probe_path()
        with open(self.directory / f"output-{self.mark[:8]}-{number}", "wb") as output:
            start = self._starter or (self._fork if self._forked else self._execute)
            return start(command, environment, output.fileno())

    def _fork(self, command: Command, environment: Mapping[str, str], output: int) -> Forked:
        return fork_server().start(
            command.arguments,
            environment=environment,
            directory=REPOSITORY,
            output=output,
            ranks=self._forked_ranks,
            imports=self.truth.get("imports", ()),
            beside=self.beside,
        )

    def _execute(self, command: Command, environment: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            (*self._wrapper, *command.arguments),
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=process.wait, daemon=True).start()
        return process

    def _wait_until_ready(self, deadline: float) -> None:
        received = b""
        while received.count(b"\n") < self._expected_lines:
            if not select.select([self._pipe], [], [], 0.2)[0]:
                self._check_start(deadline, received)
                continue
            received += os.read(self._pipe, 65536)
        self.ready_lines = received.decode().splitlines()

    def _wait_until_still(self, deadline: float) -> None:
        """Wait until no rank moves any more, but for those that its truth calls busy.

        The word "ready" comes just before the last step into the hang, and a loaded machine may put a second
        between the two. A rank is still when its main thread has not been on a core for a quarter of a second.
        """
        watched = [pid for rank, pid in self.outside().items() if rank not in self.truth.get("busy", ())]
        before: list[str | None] = []
        while (now := [_progress_of(pid) for pid in watched]) != before:
            if time.monotonic() > deadline:
                raise JobFailed(f"{self.name} did not come to rest; it wrote:\n{self.output}")
            before = now
            time.sleep(STILL_SECONDS)

    def _check_start(self, deadline: float, received: bytes) -> None:
        everyone_left = all(process.poll() is not None for process in self._launched)
        if everyone_left or time.monotonic() > deadline:
            what = "ended" if everyone_left else "was not ready in time"
            raise JobFailed(f"{self.name} {what}; ready: {received.decode()!r}; it wrote:\n{self.output}")


@cache
def probe_path() -> str:
    """Ask `unhang` for the directory that loads the probe into a job."""
    command = [sys.executable, "-m", "cli", "probe-path"]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True)
    return answer.stdout.strip()


def _number_within(pid: int) -> int:
    """Return a process's number in its own namespace; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), pid)


def _progress_of(pid: int) -> str | None:
    """Return what changes whenever the main thread gets a core; None when the process is gone."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/schedstat").read_text()
    except OSError:
        return None


def marked(entry: bytes) -> Iterator[int]:
    """Iterate over the processes that were started with this entry in their environment."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and _carries(int(directory.name), entry):
            yield int(directory.name)


def _carries(pid: int, entry: bytes) -> bool:
    """Does the process carry the mark? A process that has ended, reaped or not, carries nothing."""
    try:
        return entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def kill(pid: int, entry: bytes) -> None:
    """Kill the process, by a handle taken before its mark is checked: its id may have been given to another."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _carries(pid, entry):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)
