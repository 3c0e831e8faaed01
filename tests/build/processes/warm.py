"""`unhang` without its imports: commands as forks of one process that has imported all of it.

Importing is most of what a short command costs. The fork has the arguments, variables, working directory and streams
that it is given, and ends as a command does: by `cli.main.main`, through the interpreter's own end. Real interpreters
stay wherever the start itself, a terminal or a signal is what a test is about, and in the tests of what is installed.

Where another program has to start `unhang`, as sshd does, it gets a script in its place (`script`; see doors.py).
"""

import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple

from tests.build.processes.doors import Doors, take_order
from tests.build.processes.parcels import pair, receive, send

_REPOSITORY = Path(__file__).resolve().parents[3]


class Done(NamedTuple):
    """What a finished command left."""

    status: int
    out: str
    err: str


def run(arguments: Sequence[str], *, environment: Mapping[str, str], directory: Path, seconds: float) -> Done:
    """Run `unhang` to its end, its output going to files; raises `subprocess.TimeoutExpired`, and ends it then."""
    with TemporaryFile("w+", errors="surrogateescape") as out, TemporaryFile("w+", errors="surrogateescape") as err:
        status = _server().run(
            [list(arguments), dict(environment), str(directory)], (out.fileno(), err.fileno()), seconds
        )
        return Done(status, _whole(out), _whole(err))


def script() -> str:
    """Return a script that is `unhang` for this user, as long as this process lives."""
    return _server().script()


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


class _Server:
    """The process that forks, as its one client sees it. It ends with its client."""

    def __init__(self) -> None:
        self._line, theirs = pair()
        self._turn = Lock()
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "tests.build.processes.warm", str(theirs.fileno())),
                cwd=_REPOSITORY,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def run(self, order: list[object], streams: Sequence[int], seconds: float) -> int:
        """Run a command to its end and return its status; its process id is nobody else's until that is taken."""
        pid, (handle,) = self._ask(order, streams)
        try:
            ended, _, _ = select.select([handle], [], [], seconds)
            if not ended:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
        status, _ = self._ask(pid)
        if not ended:
            raise subprocess.TimeoutExpired(f"unhang {order[0]}", seconds)
        assert isinstance(status, int)
        return status

    def script(self) -> str:
        """Have it answer those who are not its client, each at a line of its own."""
        found, _ = self._ask("script")
        assert isinstance(found, str)
        return found

    def _ask(self, question: object, files: Sequence[int] = ()) -> tuple[Any, list[int]]:
        with self._turn:
            send(self._line, question, files)
            return receive(self._line)


def _server() -> _Server:
    with _STARTING:
        return _only_server()


@cache
def _only_server() -> _Server:
    return _Server()


_STARTING = Lock()


_CLI = "cli cli.commands cli.sources cli.tables cli.preflight cli.preflight.search cli.preflight.stages".split()


def _import_all() -> None:
    """Import what commands import when they are called."""
    for name in (*_CLI, "agent", "collector", "collector.show.text"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def serve(line: socket.socket) -> None:
    """Fork for each command, and take statuses when asked. Returns in forks, as what is to run; else never."""
    _import_all()
    gc.collect()
    gc.freeze()
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a thread would be missing in forks"
    doors = Doors()
    callers: set[int] = set()
    while True:
        (first, *_), _, _ = select.select([line, *doors], [], [])
        callers = {pid for pid in callers if not os.waitpid(pid, os.WNOHANG)[0]}
        if first is not line:
            caller, _ = first.accept()
            with caller:
                pid = os.fork()
                if pid == 0:
                    return _become(*take_order(caller))
            callers.add(pid)
            continue
        try:
            order, streams = receive(line)
        except EOFError:
            doors.close()
            os._exit(0)
        if order == "script":
            send(line, doors.open())
            continue
        if isinstance(order, int):
            send(line, os.waitstatus_to_exitcode(os.waitpid(order, 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            line.close()
            return _become(*order, streams)
        handle = os.pidfd_open(pid)
        send(line, pid, [handle])
        for file in (handle, *streams):
            os.close(file)


def _become(arguments: Sequence[str], environment: Mapping[str, str], directory: str, streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams, start=3 - len(streams)):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    importlib.import_module("cli.main").main()
