"""`unhang` without its imports: commands as forks of one process that has imported all of it.

Importing is most of what a short command costs. The fork has the arguments, variables, working directory and streams
that it is given, and ends as a command does: by `cli.main.main`, its threads, and what is to run at the interpreter's
end. Real interpreters stay wherever the start itself is what a test is about, in one test of each way to end by a
signal and of terminals, and in the tests of what is installed.

Where another program has to start `unhang`, as sshd does, it gets a script in its place (`script`; see doors.py).
"""

import atexit
import gc
import importlib
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple

from tests.build.processes.doors import Doors, take_order
from tests.build.processes.namespaces import go_beside
from tests.build.processes.parcels import receive, send
from tests.build.processes.shared_servers import Clients, answer, connect

_GONE_SECONDS = 60.0
"""For a command that was killed to be gone."""


class Done(NamedTuple):
    """What a finished command left."""

    status: int
    out: str
    err: str


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    seconds: float,
    beside: int | None = None,
    module: str = "cli.main",
) -> Done:
    """Run `unhang` to its end, its output going to files; raises `subprocess.TimeoutExpired`, and ends it then.

    `beside`: a process in whose namespaces it runs; `module`: whose `main` is called.
    """
    with TemporaryFile("w+", errors="surrogateescape") as out, TemporaryFile("w+", errors="surrogateescape") as err:
        order = _Order(arguments, dict(environment), str(directory), beside=beside, module=module)
        command = _server().start(order, (out.fileno(), err.fileno()))
        try:
            status = command.wait(seconds)
        finally:
            command.end()
        return Done(status, _whole(out), _whole(err))


def start(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    streams: Sequence[int],
    beside: int | None = None,
    module: str = "cli.main",
) -> "Forked":
    """Start `unhang` with these open files as its last standard streams; its input is empty where they are two.

    `beside`: a process in whose namespaces it runs, as the one child of what is given back, which ends with it;
    `module`: whose `main` is called.
    """
    return _server().start(_Order(arguments, dict(environment), os.getcwd(), beside=beside, module=module), streams)


@contextmanager
def started(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    output: int,
    most_bytes: int | None = None,
) -> Iterator["Forked"]:
    """Run `unhang` until the block ends, its output going to an open file.

    `most_bytes`: of memory, as `ulimit -v` bounds it.
    """
    order = _Order(arguments, dict(environment), str(directory), most_bytes=most_bytes)
    command = _server().start(order, (output, output))
    try:
        yield command
    finally:
        command.end()


def script() -> str:
    """Return a script that is `unhang` for this user, as long as this process lives."""
    return _server().script()


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


class _Order(NamedTuple):
    """What a fork is to become."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    most_bytes: int | None = None
    beside: int | None = None
    module: str = "cli.main"


class _Server:
    """The process that forks, as one of its clients sees it: all workers of a run share it."""

    def __init__(self) -> None:
        self._line = connect("tests.build.processes.warm", os.environ)
        self._turn = Lock()

    def start(self, order: _Order, streams: Sequence[int]) -> "Forked":
        """Start a command."""
        pid, (handle,) = self.ask(order, streams)
        return Forked(self, pid, handle, " ".join(order.arguments))

    def script(self) -> str:
        """Have it answer those who are not its client, each at a line of its own."""
        found, _ = self.ask("script")
        assert isinstance(found, str)
        return found

    def ask(self, question: object, files: Sequence[int] = ()) -> tuple[Any, list[int]]:
        """Send something, and return what comes back."""
        with self._turn:
            send(self._line, question, files)
            return receive(self._line)


class Forked:
    """A command that was started. Its process id is nobody else's until its status is taken."""

    def __init__(self, server: _Server, pid: int, handle: int, words: str) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.cpu_seconds = 0.0
        """What it has used of a core by its end, and what its children did."""
        self._server, self._handle, self._words = server, handle, words

    def poll(self) -> int | None:
        """Return its status; None while it runs."""
        return self._taken(0)

    def wait(self, seconds: float) -> int:
        """Wait until it has ended; raises `subprocess.TimeoutExpired`."""
        status = self._taken(seconds)
        if status is None:
            raise subprocess.TimeoutExpired(f"unhang {self._words}", seconds)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, number)

    def end(self) -> None:
        """Kill it where it still runs."""
        self.send_signal(signal.SIGKILL)
        if self.returncode is None:
            self.wait(_GONE_SECONDS)

    def _taken(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._handle], [], [], seconds)[0]:
            (self.returncode, self.cpu_seconds), _ = self._server.ask(self.pid)
            os.close(self._handle)
        return self.returncode


def _server() -> _Server:
    with _STARTING:
        return _only_server()


@cache
def _only_server() -> _Server:
    return _Server()


_STARTING = Lock()


_CLI = "cli cli.commands cli.sources cli.tables cli.preflight cli.preflight.search cli.preflight.stages".split()


_LATE = ("anyio._backends._asyncio", "uvicorn.lifespan.on", "uvicorn.loops.asyncio")
"""What libraries import by name, when they run: 8 of the 70 ms of `unhang jobs`."""


def _import_all() -> None:
    """Import what commands import when they are called."""
    for name in _LATE:
        importlib.import_module(name)
    for name in (*_CLI, "agent", "collector", "collector.show.text"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def serve(clients: Clients) -> str:
    """Fork for each command, and take statuses when asked. Returns in forks, with the module to run; else never."""
    gc.disable()  # what imports make stays: to search it for garbage is a fifth of what they cost
    _import_all()
    gc.freeze()
    gc.enable()
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a thread would be missing in forks"
    doors = Doors()
    callers: set[int] = set()
    while True:
        try:
            line = clients.next(doors)
        except EOFError:
            doors.close()
            os._exit(0)
        callers = {pid for pid in callers if not os.waitpid(pid, os.WNOHANG)[0]}
        if line in doors:
            caller, _ = line.accept()
            with caller:
                pid = os.fork()
                if pid == 0:
                    clients.close()
                    called = take_order(caller)
                    return _become(_Order(called.words, called.environment, called.directory), called.streams)
            callers.add(pid)
            continue
        order, streams = receive(line)
        if order == "script":
            answer(line, doors.open())
            continue
        if isinstance(order, int):
            _, status, used = os.wait4(order, 0)
            answer(line, [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime])
            continue
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            clients.close()
            for door in doors:
                door.close()
            for end in (ours, theirs):
                os.close(end)
            return _become(_Order(*order), streams)
        os.close(theirs)
        os.read(ours, 1)  # ends when it holds no socket of ours any more: who waits for its first one would see that
        handle = os.pidfd_open(pid)
        answer(line, pid, [handle])
        for file in (ours, handle, *streams):
            os.close(file)


def _become(order: _Order, streams: Sequence[int]) -> str:
    if order.beside is not None:
        go_beside(order.beside)
    if order.most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (order.most_bytes, order.most_bytes))
    for number, stream in enumerate(streams, start=3 - len(streams)):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv[1:] = order.arguments
    return order.module


def _leave(left: SystemExit) -> None:
    """End as the interpreter does, but leave its memory to the kernel.

    Python would free each object that was imported, and all that this fork shares with the server would be copied for
    that: 45 of the 52 ms of `unhang --version`.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as for those of executors
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise left from None  # Python has words and a status of its own for that
    os._exit(left.code if isinstance(left.code, int) else 0)


if __name__ == "__main__":
    to_run = serve(Clients(socket.socket(fileno=int(sys.argv[1]))))
    try:
        importlib.import_module(to_run).main()
    except SystemExit as left:
        _leave(left)
