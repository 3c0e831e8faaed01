"""A preflight over hosts of our own (tests/system/e2e): each node is `unhang preflight`, as a launcher starts it."""

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from shared.answer.preflight import NodeState, PreflightReport
from tests.build.processes import warm
from tests.needed import skip_without
from tests.system.e2e.cluster import lacking_for_hosts
from tests.system.e2e.hosts import Guest, Host
from tests.system.e2e.network import Network
from tests.system.live.asking import unhang
from tests.system.live.fork_server import fork_server

TOKEN = "of-these-tests-alone-0123456789"
END_SECONDS = 240.0
INSTANT_SECONDS = 5.0
"""On a busy machine."""


def names(count: int) -> tuple[str, ...]:
    """Return the names of so many nodes."""
    return tuple(f"n{number:02}" for number in range(count))


@contextmanager
def network_of(hosts: Sequence[str], folder: Path) -> Iterator[Network]:
    """Run hosts of their own until the block ends; skip the test where this machine cannot."""
    skip_without("ip")
    lacking = lacking_for_hosts()
    if lacking:
        pytest.skip(f"needs namespaces of its own: {lacking}")
    with Network(*hosts, directory=folder) as network:
        yield network


@dataclass(frozen=True)
class Ended:
    """A preflight that is over."""

    report: PreflightReport
    status: int
    said: str
    took_seconds: float

    @property
    def bad(self) -> set[str]:
        """The nodes that it calls bad."""
        return set(self.report.hosts(NodeState.BAD))


class Preflight:
    """One preflight on all hosts of a network. To be used in a `with`."""

    def __init__(
        self,
        network: Network,
        directory: Path,
        *flags: str,
        on: Mapping[str, Mapping[str, str]] | None = None,
        without: Iterable[str] = (),
        deadline: float = 200.0,
        forked: bool = False,
    ) -> None:
        """`on`: variables of some nodes; `without`: nodes on which nothing is started.

        `forked`: each node's `unhang`, and the Python that runs its trials, are forks of processes that have imported
        all they need; a guest is then the script that has asked for one (tests/build/processes/doors.py).
        """
        self._directory = directory
        self._nodes = list(network.hosts)
        self.deadline = deadline
        self.began = time.monotonic()
        self.guests: dict[str, Guest] = {}
        first = self._nodes[0]
        python, program = sys.executable, unhang("preflight")
        if forked:
            python = _executable(directory / "python", fork_server().script())
            program = (_executable(directory / "unhang", warm.script()), "preflight")
        for number, name in enumerate(self._nodes):
            if name in set(without):
                continue
            private = directory / name
            private.mkdir()
            fixed = ("--node", str(number), "--nodes", str(len(self._nodes)), "--coordinator", f"{first}:8473")
            limits = ("--deadline", f"{deadline:g}", "--python", python, "--json")
            out = ("--out", str(directory / "out")) if number == 0 else ()
            variables = {"UNHANG_PREFLIGHT_TOKEN": TOKEN, "TMPDIR": str(private), "OMP_NUM_THREADS": "1"}
            self.guests[name] = network.hosts[name].start(
                (*program, *fixed, *limits, *out, *flags),
                output=directory / f"{name}.log",
                environment=_plain() | variables | dict((on or {}).get(name, {})),
            )

    def __enter__(self) -> "Preflight":
        return self

    def __exit__(self, *_: object) -> None:
        for guest in self.guests.values():
            guest.end()

    def said(self, name: str) -> str:
        """Return what a node has written so far."""
        path = self._directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for(self, words: str) -> None:
        """Wait until the first node says something."""
        until = time.monotonic() + END_SECONDS
        while words not in self.said(self._nodes[0]):
            assert self.guests[self._nodes[0]].lives and time.monotonic() < until, self.said(self._nodes[0])
            time.sleep(0.05)

    def wait_until_connected(self, name: str) -> None:
        """Wait until a node has a connection to the coordinator."""
        # 1: 03034D0A:9C42 01034D0A:2119 01 00000000:00000000 00:00000000 00000000  (proc(5): port 8473, ESTABLISHED)
        established = re.compile(r":2119 01 ")
        until = time.monotonic() + END_SECONDS
        while not established.search(Path(f"/proc/{self.guests[name].pid}/net/tcp").read_text()):
            assert self.guests[name].lives and time.monotonic() < until, self.said(name)
            time.sleep(0.05)

    def wait(self) -> Ended:
        """Wait for its end; nothing that it has started may be left on any host."""
        first = self.guests[self._nodes[0]]
        until = time.monotonic() + self.deadline + END_SECONDS
        while first.lives and time.monotonic() < until:
            time.sleep(0.05)
        took = time.monotonic() - self.began
        said = self.said(self._nodes[0])
        assert not first.lives, said
        report = self._directory / "out" / "report.json"
        assert report.exists(), said
        return Ended(PreflightReport.model_validate_json(report.read_bytes()), first.status, said, took)

    def left_behind(self, *, ended: Iterable[str]) -> list[str]:
        """Return what still runs of the nodes that should have ended, after they had time to.

        A fork ends an instant after the script in whose place it runs.
        """
        until = time.monotonic() + END_SECONDS
        while any(self.guests[name].lives for name in ended) and time.monotonic() < until:
            time.sleep(0.05)
        homes = {str(self._directory / name) for name in ended}
        until = time.monotonic() + INSTANT_SECONDS
        while (found := _at_home_in(homes)) and time.monotonic() < until:
            time.sleep(0.05)
        return found


def _at_home_in(folders: set[str]) -> list[str]:
    """Return the commands that have been told to put their files there."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR", "") in folders:
                found.append(" ".join(process.cmdline())[:80])
    return found


def _executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


# Each round asks anew who the others are, and says who asks, as a kernel does that has not heard of them for long.
_TALK = """
import socket, subprocess, sys, time
while True:
    subprocess.run(("ip", "neigh", "flush", "all"))
    for address in sys.argv[1:]:
        try:
            socket.create_connection((address, 9), 0.2).close()
        except OSError:
            pass
    time.sleep(0.2)
"""


@contextmanager
def talking(host: Host, addresses: Iterable[str], directory: Path) -> Iterator[None]:
    """Let a host talk to others until the block ends."""
    guest = host.start((sys.executable, "-c", _TALK, *addresses), output=directory / "talk.log", environment=_plain())
    try:
        yield
    finally:
        guest.end()


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG", "MASTER"))}
