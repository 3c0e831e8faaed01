"""Both services tell systemd that they serve, that their loop turns, and that they end: on a real socket."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from shared.server.lifecycle.service_manager import ServiceManager
from tests.build.processes.commands import environment
from tests.build.processes.ports import free_port
from tests.system.deploy.units import settings_of

SERVICES = ("agent", "collector")

_WATCHDOG_SECONDS = 6.0
_MOST_SECONDS = 90.0

_STUCK_WHEN_ASKED = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
from cli.main import main
main()
"""


class Manager:
    """Stands where systemd does: receives what a service says."""

    def __init__(self, where: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + where[1:] if where.startswith("@") else where)

    def next(self, seconds: float = _MOST_SECONDS) -> str:
        """Return what is said next. Raises TimeoutError."""
        self._socket.settimeout(seconds)
        return self._socket.recv(4096).decode()

    def drain(self) -> None:
        """Forget what was said until now."""
        try:
            while True:
                self.next(0.01)
        except TimeoutError:
            return

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@contextmanager
def managed(service: str, directory: Path, where: str) -> Iterator[tuple[Manager, "subprocess.Popen[str]", int]]:
    """Run a service as systemd would start it; gives what hears it, its process and its port."""
    manager, port = Manager(where), free_port()
    more = ["--store", str(directory / "store.sqlite3")] if service == "collector" else []
    told = {"NOTIFY_SOCKET": where, "WATCHDOG_USEC": str(int(_WATCHDOG_SECONDS * 1e6))}
    arguments = [service, "--listen", f"127.0.0.1:{port}", *more]
    process = subprocess.Popen(
        [sys.executable, "-c", _STUCK_WHEN_ASKED, *arguments],
        env={**environment(), **told},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield manager, process, port
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        manager.close()


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_service_says_when_it_serves_lives_and_ends(service: str, tmp_path: Path) -> None:
    """READY=1 comes when it answers, not before; then a sign of life in time, and STOPPING=1 when it is told to end."""
    with managed(service, tmp_path, str(tmp_path / "notify")) as (manager, process, port):
        assert manager.next() == "READY=1"
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=30).status_code == 200
        assert [manager.next(_WATCHDOG_SECONDS) for _ in range(2)] == ["WATCHDOG=1"] * 2
        process.send_signal(signal.SIGTERM)
        said = ""
        while said != "STOPPING=1":
            said = manager.next()
        assert process.wait(_MOST_SECONDS) == 0


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_stuck_loop_gives_no_sign_of_life_and_shows_its_stacks(service: str, tmp_path: Path) -> None:
    """The process lives and its port is open: only the signs tell. Systemd ends it by SIGABRT."""
    with managed(service, tmp_path, f"@unhang-test-{free_port()}") as (manager, process, _):
        assert manager.next() == "READY=1"
        assert manager.next(_WATCHDOG_SECONDS) == "WATCHDOG=1"
        process.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        manager.drain()
        with pytest.raises(TimeoutError):
            manager.next(_WATCHDOG_SECONDS)
        assert process.poll() is None
        process.send_signal(signal.SIGABRT)
        _, said = process.communicate(timeout=_MOST_SECONDS)
        assert process.returncode == -signal.SIGABRT
        assert "Current thread" in said
        assert "<lambda>" in said, "the stack shows where it was stuck"


@pytest.mark.parametrize("service", SERVICES)
def test_unit_waits_for_what_the_service_says(service: str) -> None:
    """And ends it where it says nothing for a minute: longer than any verdict keeps the loop."""
    assert settings_of(service, "Type") == ["notify"]
    assert settings_of(service, "WatchdogSec") == ["60"]
    assert settings_of(service, "Restart") == ["on-failure"]


@pytest.mark.parametrize(
    ("given", "is_there", "seconds"),
    [
        ({}, False, None),
        ({"WATCHDOG_USEC": "3000000"}, False, 1.0),
        ({"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "3000000"}, True, 1.0),
        ({"NOTIFY_SOCKET": "@notify", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, True, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, False, None),
        ({"NOTIFY_SOCKET": "notify", "WATCHDOG_USEC": "0"}, False, None),
        ({"NOTIFY_SOCKET": "/" + 200 * "x", "WATCHDOG_USEC": "-3"}, False, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "²"}, True, None),
    ],
)
def test_environment_says_whom_to_tell(given: dict[str, str], is_there: bool, seconds: float | None) -> None:
    """What is not ours, or no number, counts for nothing; helpers that we start do not inherit it."""
    left = {"PATH": "/bin", **given}
    manager = ServiceManager.of_process(left)
    assert (manager.is_there, manager.sign_seconds) == (is_there, seconds)
    assert left == {"PATH": "/bin"}
    manager.serving()  # nobody listens there, and nothing happens
