"""A launcher whose ranks are forks of it: `python fork_launcher.py 2 -m torch.distributed.run ... SCRIPT`.

The launcher itself is the real one, torch's elastic agent (`accelerate launch` runs it as well): it meets the others,
gives out ranks and variables, watches its ranks, which are its children, and ends them. Only the step from its
subprocess handler to an interpreter that has torch imported is another one. As many ranks as are asked for are
forked before the launcher runs, from a process with one thread, and wait for their variables.
"""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.build.processes.parcels import pair, receive, send
from tests.system.live.becoming import Program, become, import_torch, run, show

FORK_LAUNCHER = Path(__file__).resolve()


class ForkedRank:
    """A fork that waits to become a rank; afterwards all that torch's handler wants of a `Popen`."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.line = line

    def start(self, program: Program, streams: Sequence[int]) -> None:
        """Let it become a program, and wait until it looks like one."""
        with closing(self.line):
            send(self.line, program, streams)
            receive(self.line)

    def poll(self) -> int | None:
        """Return how it has ended; None while it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it has ended; raises `subprocess.TimeoutExpired`."""
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                ended, _, _ = select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
            if not ended:
                raise subprocess.TimeoutExpired("a forked rank", timeout or 0.0)
        return self.poll()


def with_ranks(launcher: Program, count: int) -> Program:
    """Fork `count` ranks. Returns in each of the processes that there are then, with what is to run in it."""
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a thread would be missing in forks"
    ranks: list[ForkedRank] = []
    for _ in range(count):
        ours, theirs = pair()
        pid = os.fork()
        if pid == 0:
            for line in (ours, *(rank.line for rank in ranks)):
                line.close()
            return _rank(theirs)
        theirs.close()
        ranks.append(ForkedRank(pid, ours))
    _hand_out(iter(ranks))
    return launcher


def _rank(line: socket.socket) -> Program:
    """Wait for what this fork is to become. Ends it with a launcher that starts fewer ranks."""
    try:
        with closing(line):
            words, streams = receive(line)
            program = Program(*words)
            os.setsid()
            become(program, streams)
            send(line, "here")
    except EOFError:
        os._exit(0)
    return program


def _hand_out(ranks: Iterator[ForkedRank]) -> None:
    """Have torch's elastic agent take these ranks where it would start interpreters."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import SubprocessHandler

    def start(handler: Any, arguments: Sequence[str], environment: Mapping[str, str]) -> ForkedRank:
        rank = next(ranks)
        given = ((handler._stdout, 1), (handler._stderr, 2))
        written = [own if file is None else file.fileno() for file, own in given]
        rank.start(_without_options(arguments, environment), written)
        return rank

    SubprocessHandler._popen = start


def _without_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Program:
    """Leave out `-u`: streams are not buffered here anyway."""
    words = [word for word in arguments if word != "-u"]
    return Program(words, dict(environment), os.getcwd())


def main() -> Program:
    """Become the launcher that stands on the command line, or one of its ranks."""
    import_torch()
    words = [sys.executable, *sys.argv[2:]]
    launcher = Program(words, dict(os.environ), os.getcwd())
    show(launcher)
    return with_ranks(launcher, int(sys.argv[1]))


if __name__ == "__main__":
    run(main())
