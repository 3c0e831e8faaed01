"""A process that has imported torch once, and forks ranks and launchers: a fifth of what it costs to execute them.

Importing torch is most of what a small job costs, and each of its processes does it. What is forked looks executed
(becoming.py), and is in a session of its own, with its own variables, streams and working directory.

Real interpreters stay wherever a launcher, or how ranks come to be, is what a test is about; and for at least one in
four of the programs that hang, so that what forks might hide is seen.
"""

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.build.processes.doors import Doors, take_order
from tests.build.processes.namespaces import go_beside
from tests.build.processes.parcels import pair, receive, send
from tests.build.processes.shared_servers import Clients, answer, connect
from tests.system.live.becoming import Program, become, import_torch, run, show
from tests.system.live.fork_launcher import with_ranks

_REPOSITORY = Path(__file__).resolve().parents[3]


class Forked:
    """A process that the server has forked; the server itself takes its exit status."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle

    def poll(self) -> int | None:
        """Return None while it lives."""
        return 0 if select.select([self._handle], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; raises `subprocess.TimeoutExpired`."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return 0

    def kill(self) -> None:
        """End it, if it lives."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._handle)


class ForkServer:
    """The server as one of its clients sees it: all workers of a run share it."""

    def __init__(self) -> None:
        self._line = connect("tests.system.live.fork_server", _environment())

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        ranks: int,
        imports: Sequence[str] = (),
        beside: int | None = None,
    ) -> Forked:
        """Start a Python program that writes to the open file `output`; a module launches so many forked `ranks`.

        `imports`: modules that the launcher imports for all of its ranks at once.
        `beside`: a process in whose namespaces it runs; what is given back then ends with it, outside of them.
        """
        program = Program(arguments, dict(environment), str(directory))
        send(self._line, [program, ranks, list(imports), beside], [output])
        pid, (handle,) = receive(self._line)
        return Forked(pid, handle)

    def script(self) -> str:
        """Return a script that is a Python with torch, as long as this process lives; it takes `-c` and a program."""
        send(self._line, None)
        found, _ = receive(self._line)
        assert isinstance(found, str)
        return found


@cache
def fork_server() -> ForkServer:
    """The one of this run of tests, started when it is first asked for."""
    return ForkServer()


def _environment() -> dict[str, str]:
    """One thread in torch's libraries, for forks have no others; and no buffers that forks would write again."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def serve(clients: Clients) -> Program:
    """Fork for each program. Returns in forks, with what is to run there; in the server, never."""
    import_torch()
    gc.freeze()
    # Not as what agents search for a process group, all of it: 0.1 cpu seconds each time, for each server.
    show(Program(("unhang", "fork-server"), dict(os.environ), os.getcwd()))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody is to stay behind as a zombie
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a thread would be missing in forks"
    doors = Doors()
    while True:
        try:
            line = clients.next(doors)
        except EOFError:
            doors.close()
            os._exit(0)
        if line in doors:
            caller, _ = line.accept()
            with caller:
                if os.fork() == 0:
                    clients.close()
                    return _called(caller)
            continue
        order, streams = receive(line)
        if order is None:
            answer(line, doors.open())
            continue
        (words, ranks, imports, beside), (output,) = order, streams
        program, (ours, theirs) = Program(*words), pair()
        pid = os.fork()
        if pid == 0:
            clients.close()
            ours.close()
            return _forked(program, output, theirs, ranks, imports, beside)
        theirs.close()
        _answer(line, ours, pid)
        os.close(output)


def _answer(line: socket.socket, child: socket.socket, pid: int) -> None:
    """Send the client a handle of a child that looks executed by then, or has failed to, which its output says."""
    handle = os.pidfd_open(pid)
    with child, suppress(EOFError):
        send(child, "there is a handle")
        receive(child)
    answer(line, pid, [handle])
    os.close(handle)


def _called(caller: socket.socket) -> Program:
    """Return what a script was executed for, in a fork that looks like it."""
    order = take_order(caller)
    words = [sys.executable, *(word for word in order.words if word != "-u")]  # streams are not buffered here anyway
    program = Program(words, order.environment, order.directory)
    become(program, order.streams)
    for stream in order.streams:
        os.close(stream)
    return program


def _forked(
    program: Program, output: int, line: socket.socket, ranks: int, imports: Sequence[str], beside: int | None
) -> Program:
    with line:
        receive(line)
        if beside is not None:
            go_beside(beside)
        os.setsid()
        become(program, (output, output))
        os.close(output)
        send(line, "here")
    if not program.is_module or not ranks:
        return program
    for name in imports:
        importlib.import_module(name)
    return with_ranks(program, ranks)


if __name__ == "__main__":
    run(serve(Clients(socket.socket(fileno=int(sys.argv[1])))))
