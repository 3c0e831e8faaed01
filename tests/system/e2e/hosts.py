"""Hosts of our own on this machine: each with its own network, processes, /proc, host name and /etc/hosts.

A host is a set of Linux namespaces around a first process that ends with us, and everything in it with that: nothing
is left behind, however the tests end. What runs in a host is an ordinary process for us, by another number.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.build.processes import warm
from tests.system.live.truths import REPOSITORY

START_SECONDS = 30.0
END_SECONDS = 30.0

_FIRST_PROCESS = """
set -e
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/nsswitch.conf" /etc/nsswitch.conf
ip link set lo up
trap '' CHLD  # orphans of this host are ours, and are to leave no zombies
echo ready
exec cat
"""
"""Reads from a pipe that we hold: when that closes it ends, and the kernel ends all the rest of the host."""

_NAMESPACES = ("--net", "--pid", "--mount", "--uts", "--ipc")


@contextmanager
def container() -> Iterator[int]:
    """A container without anything in it but this process: users, processes and /proc are its own."""
    own = ("unshare", "--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
    with subprocess.Popen((*own, "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdin is not None and outer.stdout is not None
        outer.stdin.write("here\n")
        outer.stdin.flush()
        assert outer.stdout.readline() == "here\n"
        yield only_child(outer.pid)
        outer.stdin.close()


class NoHosts(RuntimeError):
    """This machine does not let us make namespaces; says what went wrong."""


class Host:
    """One host: `with Host("node1", etc=folder) as host:`."""

    def __init__(self, name: str, *, etc: Path) -> None:
        """`etc` has the files `hosts` and `nsswitch.conf` that take the place of its own in /etc."""
        self.name = name
        self._etc = etc
        self._guests: list[Guest] = []
        self._outer: subprocess.Popen[str] | None = None
        self.pid = 0
        """Its first process, by our count."""

    def __enter__(self) -> Self:
        """Start it. Raises NoHosts."""
        first = ("sh", "-c", _FIRST_PROCESS, "sh", self.name, str(self._etc))
        self._outer = subprocess.Popen(
            ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc", *first),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._outer.stdout is not None and self._outer.stderr is not None
        if self._outer.stdout.readline() != "ready\n":
            said = self._outer.stderr.read()
            self.__exit__(None, None, None)
            raise NoHosts(f"no namespaces for {self.name}: {said.strip()}")
        self.pid = only_child(self._outer.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all that runs in it, and the host."""
        outer = self._outer
        if outer is None:
            return
        if self.pid:
            _signal(self.pid, signal.SIGKILL)
        outer.kill()
        outer.wait(END_SECONDS)
        for pipe in (outer.stdin, outer.stdout, outer.stderr):
            if pipe is not None:
                pipe.close()
        for guest in self._guests:
            guest.end()
        self._outer = None

    def inside(self, *arguments: str) -> tuple[str, ...]:
        """Return the command that runs `arguments` as a process of this host, in our working directory."""
        enter = ("nsenter", "--target", str(self.pid), *_NAMESPACES, f"--wd={REPOSITORY}")
        return (*enter, "--", *arguments)

    def on_network(self, *arguments: str) -> tuple[str, ...]:
        """Return the command that runs `arguments` as a process of ours on this host's network."""
        return ("nsenter", "--target", str(self.pid), "--net", "--", *arguments)

    def ip(self, *lines: str) -> None:
        """Run lines of ip(8) on this host's network."""
        command = self.on_network("ip", "-batch", "-")
        done = subprocess.run(command, input="\n".join(lines), text=True, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise NoHosts(f"on {self.name}: {lines}: {done.stderr.strip()}")

    def start(self, arguments: Sequence[str], *, output: Path, environment: Mapping[str, str]) -> "Guest":
        """Start a process of this host, which writes to `output`."""
        with open(output, "ab") as file:
            outer = subprocess.Popen(
                self.inside(*arguments),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._guest(outer)

    def fork(self, arguments: Sequence[str], *, output: Path, environment: Mapping[str, str]) -> "Guest":
        """Start `unhang` as a process of this host: a fork of one that has imported all of it (see warm.py)."""
        with open(output, "ab") as file:
            streams = (file.fileno(),) * 2
            return self._guest(warm.start(arguments, environment=environment, streams=streams, beside=self.pid))

    def _guest(self, outer: "subprocess.Popen[bytes] | warm.Forked") -> "Guest":
        guest = Guest(outer)
        self._guests.append(guest)
        return guest


class Guest:
    """A process that runs in a host."""

    def __init__(self, outer: "subprocess.Popen[bytes] | warm.Forked") -> None:
        """`outer` waits for it outside of the host, and ends as it does: `nsenter`, or a fork."""
        self._outer = outer
        self.pid = only_child(self._outer.pid)
        """The process itself, by our count."""

    @property
    def lives(self) -> bool:
        """Has it not ended?"""
        return self._outer.poll() is None

    @property
    def status(self) -> int:
        """Its exit status; waits for it."""
        return self._outer.wait(END_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nsenter stops with what it waits for, and goes on with it."""
        _signal(self.pid, number)
        if number is signal.SIGCONT:
            _signal(self._outer.pid, number)

    def end(self) -> None:
        """Kill it, also where it is stopped, and wait until it is gone."""
        if self.lives:
            _signal(self.pid, signal.SIGKILL)
            self._outer.send_signal(signal.SIGCONT)
        self._outer.wait(END_SECONDS)


def only_child(pid: int) -> int:
    """Return the one process that `pid` has started, waiting until it has."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if children:
                return int(children[0])
        time.sleep(0.005)
    raise NoHosts(f"process {pid} has started nothing")


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
