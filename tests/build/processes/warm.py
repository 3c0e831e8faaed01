"""`unhang` without its imports: commands as forks of one process that has imported all of it.

Importing is most of what a short command costs. The fork has the arguments, variables, working directory and streams
that it is given, and ends as a command does: by `cli.main.main`, through the interpreter's own end. Real interpreters
stay wherever the start itself is what a test is about, in one test of each way to end by a signal and of terminals, and
in the tests of what is installed.

Where another program has to start `unhang`, as sshd does, it gets a script in its place (`script`), which asks for a
fork and lives as long as that: whoever looks for the command, or ends it, finds the script.
"""

import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NamedTuple

from tests.build.processes.parcels import pair, receive, send

_REPOSITORY = Path(__file__).resolve().parents[3]

_END_SECONDS = 20.0
"""What was killed with SIGKILL is gone by then."""

_SCRIPT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect({address!r})
    order = [sys.argv[1:], dict(os.environ), os.getcwd()]
    socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
    status = json.loads(line.recv(64) or b"-9")
sys.exit(status if status >= 0 else 128 - status)
"""


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


def start(arguments: Sequence[str], *, environment: Mapping[str, str], streams: Sequence[int]) -> "Forked":
    """Start `unhang` with these open files as its last standard streams; its input is empty where they are two."""
    return _server().start([list(arguments), dict(environment), os.getcwd()], streams)


def script() -> str:
    """Return a script that is `unhang` for this user, as long as this process lives."""
    return _server().script()


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


class Forked:
    """A command that runs; its process id is nobody else's until its status is taken."""

    def __init__(self, pid: int, handle: int, name: str, status_of: Callable[[int], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle, self._name, self._status_of = handle, name, status_of

    def poll(self) -> int | None:
        """Return its status, or None while it lives."""
        return self._taken(0)

    def wait(self, seconds: float) -> int:
        """Wait for its status. Raises `subprocess.TimeoutExpired`."""
        status = self._taken(seconds)
        if status is None:
            raise subprocess.TimeoutExpired(f"unhang {self._name}", seconds)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, number)

    def end(self) -> None:
        """Kill it, if it is there."""
        self.send_signal(signal.SIGKILL)
        if self.returncode is None:
            self.wait(_END_SECONDS)

    def _taken(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._handle], [], [], seconds)[0]:
            self.returncode = self._status_of(self.pid)
            os.close(self._handle)
        return self.returncode


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

    def start(self, order: list[object], streams: Sequence[int]) -> "Forked":
        """Start a command."""
        pid, (handle,) = self._ask(order, streams)
        return Forked(pid, handle, str(order[0]), self.status_of)

    def run(self, order: list[object], streams: Sequence[int], seconds: float) -> int:
        """Run a command to its end and return its status."""
        forked = self.start(order, streams)
        try:
            return forked.wait(seconds)
        finally:
            forked.end()

    def status_of(self, pid: int) -> int:
        """Take the status of a command that has ended."""
        status, _ = self._ask(pid)
        assert isinstance(status, int)
        return status

    def script(self) -> str:
        """Have it answer those who are not its client, each at a line of its own."""
        address = f"\0unhang-tests-{uuid.uuid4().hex}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(address)
            door.listen(128)
            self._ask("listen", [door.fileno()])
        return _SCRIPT.format(python=sys.executable, address=address)

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


def _import_all() -> None:
    """Import what commands import when they are called."""
    for name in ("cli", "cli.commands", "cli.sources", "cli.tables", "agent", "collector", "collector.show.text"):
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
    doors: list[socket.socket] = []
    callers: set[int] = set()
    while True:
        (first, *_), _, _ = select.select([line, *doors], [], [])
        callers = {pid for pid in callers if not os.waitpid(pid, os.WNOHANG)[0]}
        if first is not line:
            caller, _ = first.accept()
            with caller:
                pid = os.fork()
                if pid == 0:
                    return _run_for(caller)
            callers.add(pid)
            continue
        try:
            order, streams = receive(line)
        except EOFError:
            os._exit(0)
        if order == "listen":
            doors += (socket.socket(fileno=stream) for stream in streams)
            send(line, None)
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


def _run_for(caller: socket.socket) -> None:
    """Run a command for a caller, which is killed when the caller is. Returns in the fork that is to run it."""
    _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if user != os.geteuid():
        os._exit(1)
    order, streams = receive(caller)
    pid = os.fork()
    if pid == 0:
        caller.close()
        return _become(*order, streams)
    for stream in streams:
        os.close(stream)
    handle = os.pidfd_open(pid)
    ready, _, _ = select.select([handle, caller], [], [])
    if handle not in ready:
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        send(caller, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


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
