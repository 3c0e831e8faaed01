"""The collector as a process: starts, answers over a socket, ends at a signal; refuses what is unsafe."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.serve import serve
from collector.settings import CollectorSettings, read_settings
from shared.errors import InvalidSettings
from tests.build.processes.nursery import Nursery
from tests.build.processes.ports import free_port
from tests.build.processes.waiting import until_it_answers

_PROGRAM = """
import json, sys
from collector.serve import serve
from collector.settings import read_settings
serve(read_settings(json.loads(sys.argv[1])))
"""

_WITHOUT_NAME_SERVER = """
import socket, time
real = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: (
    time.sleep(60) if host in ("sd.example", b"sd.example") else real(host, *more, **named)
)
"""

_LOSING_A_SIGNAL = """
import os, signal, weakref
from collector.concurrency import gc_pauses

class Thing:
    pass

def lose_a_signal():
    thing = Thing()
    watch = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing

gc_pauses.set_up = lose_a_signal
"""

REPOSITORY = Path(__file__).parents[3]


@contextmanager
def running(directory: Path, *, before: str = "", **flags: Any) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A collector in a process of its own, and its URL. `before` is run there first."""
    port = free_port()
    given = {"listen": f"127.0.0.1:{port}", "store": str(directory / "store.sqlite3"), **flags}
    process = subprocess.Popen(
        [sys.executable, "-c", before + _PROGRAM, json.dumps(given)], cwd=REPOSITORY, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until_it_answers(f"{url}/healthz", process)
        yield url, process
    finally:
        process.kill()
        process.wait()


@contextmanager
def forked(nursery: Nursery, directory: Path, **flags: Any) -> Iterator[tuple[str, int]]:
    """A collector that was forked, and need not import anything: its URL and its process id."""
    with nursery.running(store=str(directory / "store.sqlite3"), **flags) as collector:
        yield collector


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_ends_at_a_signal(tmp_path: Path, by: signal.Signals) -> None:
    """A signal ends it in seconds and without an error."""
    with running(tmp_path) as (_, process):
        process.send_signal(by)
        assert process.wait(timeout=60) in (0, -by)


def test_says_that_no_job_is_watched(tmp_path: Path) -> None:
    """Without registrations it is told of no hang, and whoever wrote a notify file waits in vain."""
    given = json.dumps({"listen": "127.0.0.1:0", "store": str(tmp_path / "store.sqlite3")})
    command = [sys.executable, "-c", _PROGRAM, given]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("no job is watched" in line for line in process.stderr)
        process.kill()


def test_ends_at_a_signal_where_python_would_drop_it(tmp_path: Path) -> None:
    """What rises in a callback of a weak reference, as in a collection of garbage, is printed and dropped."""
    given = json.dumps({"listen": "127.0.0.1:0", "store": str(tmp_path / "store.sqlite3")})
    command = [sys.executable, "-c", _LOSING_A_SIGNAL + _PROGRAM, given]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert "Exception ignored in" not in done.stderr
    assert "serving on" not in done.stderr
    assert done.returncode == -signal.SIGINT


def test_ends_though_somebody_else_writes_to_its_store(nursery: Nursery, tmp_path: Path) -> None:
    """SQLite lets a thread of ours wait for half a minute, and the next one after it: the end waits for none."""
    with (
        forked(nursery, tmp_path, agents="http://127.0.0.1:9", looks=1, interval_seconds=0) as (url, pid),
        closing(sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with suppress(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/jobs/any/diagnoses", timeout=0.5, trust_env=False, verify=False)
        begun = time.monotonic()  # SIGTERM ends it without waiting for threads, except in the command line
        assert nursery.end(pid, signal.SIGINT) in (0, signal.SIGINT)
        assert time.monotonic() - begun < 25


def test_ends_though_no_name_server_answers(tmp_path: Path) -> None:
    """A source's name is being looked up, which nothing can cut short: that thread is left behind."""
    ways = {"http_sd": "http://sd.example/agents", "discovery_deadline_seconds": 0.5}
    with running(tmp_path, before=_WITHOUT_NAME_SERVER, **ways) as (url, process):
        told = httpx.get(f"{url}/healthz", trust_env=False, verify=False).json()["trouble"]
        assert told["reason"] == "timed_out"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=25) in (0, -signal.SIGINT)


def test_events_that_are_followed_end_with_it(tmp_path: Path) -> None:
    """`unhang watch` holds nothing up, and leaves no stack trace in the journal."""
    with (
        running(tmp_path) as (url, process),
        httpx.stream("GET", f"{url}/v1/events", timeout=30, trust_env=False, verify=False) as following,
    ):
        lines = following.iter_lines()
        assert next(lines) == "retry: 2000"
        process.send_signal(signal.SIGINT)
        assert list(lines)[-1] == ""  # to its end, which would not come if the connection were cut
        assert process.wait(timeout=25) in (0, -signal.SIGINT)


def test_killed_collector_starts_again_with_what_it_had(nursery: Nursery, tmp_path: Path) -> None:
    """After a SIGKILL the next one opens the store and lists the diagnoses."""
    flags = {"agents": "http://127.0.0.1:9", "looks": 1, "interval_seconds": 0}
    with forked(nursery, tmp_path, **flags) as (url, pid):
        made = httpx.post(
            f"{url}/v1/jobs/any/diagnoses", params={"wait": 20}, timeout=30, trust_env=False, verify=False
        )
        assert made.json()["verdict"] == "cannot_tell"
        assert nursery.end(pid, signal.SIGKILL) == signal.SIGKILL
    with forked(nursery, tmp_path, **flags) as (url, _):
        listed = httpx.get(f"{url}/v1/diagnoses", trust_env=False, verify=False).json()["diagnoses"]
    assert [each["id"] for each in listed] == [made.json()["id"]]


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8470", "node1:8470"])
def test_refuses_to_listen_beyond_loopback_without_a_token(tmp_path: Path, listen: str) -> None:
    """Everybody's stacks are not served to everybody by mistake; the message says what to set."""
    with pytest.raises(InvalidSettings, match="without authentication") as caught:
        serve(CollectorSettings(listen=listen, store=tmp_path / "store.sqlite3"))
    assert "token" in caught.value.advice


def test_address_in_use(tmp_path: Path) -> None:
    """Another service has the port: one sentence, not a stack trace."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InvalidSettings, match=f"cannot listen on {listen}"):
            serve(CollectorSettings(listen=listen, store=tmp_path / "store.sqlite3"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"agents": "node["}, "not closed"),
        ({"agents_file": "/nix/agents"}, "No such file"),
        ({"token_file": "/nix/token"}, "token file"),
        ({"agent_token_file": "/nix/token"}, "token file"),
        ({"store": "/proc/nix/store"}, "cannot be used"),
        ({"listen": "nonsense"}, "'nonsense'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_said_before_it_starts(tmp_path: Path, flags: dict[str, str], words: str) -> None:
    """A mistake in the settings is one sentence at the start."""
    with pytest.raises(InvalidSettings, match=words):
        serve(read_settings({"store": tmp_path / "store.sqlite3", **flags}))
