"""What servers have not answered: real connections of this very process, which listens and takes its time."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.serving.requests import unanswered_by
from shared.wire.snapshot import Requests
from tests.build.processes.ports import free_port
from tests.build.processes.processes import READY, running, until

pytestmark = pytest.mark.ptrace

_AGO_SECONDS = 0.3
CLIENT = "import socket\nkept = socket.create_connection(('127.0.0.1', {port}))\n"


def asked(*pids: int) -> Requests | None:
    """What clients wait for, by a look of its own."""
    return unanswered_by(pids or (os.getpid(),), LookContext(ProcFs(), "here"))


def waiting() -> int:
    """How many wait for an answer of ours."""
    found = asked()
    return -1 if found is None else found.unanswered


@contextmanager
def server(client: str, *, accept: bool = True) -> Iterator[socket.socket]:
    """Listen, and have another process connect and do what `client` says; yields our end, or the listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = CLIENT.format(port=listener.getsockname()[1]) + client + READY + "time.sleep(600)\n"
        with running(program):
            if not accept:
                yield listener
                return
            ours, _ = listener.accept()
            with ours:
                yield ours


def test_who_has_asked_waits_until_something_is_said_to_him() -> None:
    """Whether what he sent was read makes no difference."""
    with server("kept.sendall(b'GET /')\n") as ours:
        time.sleep(_AGO_SECONDS)
        found = asked()
        assert found is not None and found.oldest_seconds is not None
        assert (found.unanswered, found.held_by) == (1, (os.getpid(),)) and found.oldest_seconds >= _AGO_SECONDS - 0.1
        ours.recv(16)
        assert waiting() == 1
        ours.sendall(b"HTTP/1.1 200 OK")
        assert asked() == Requests(unanswered=0, servers=(os.getpid(),))


def test_who_is_connected_and_has_said_nothing_waits_for_nothing() -> None:
    """As the idle connections of load balancers."""
    with server(""):
        assert asked() == Requests(unanswered=0, servers=(os.getpid(),))


def test_who_was_answered_and_asks_again_waits() -> None:
    """On a connection that is kept open."""
    asks_again = "import threading, time\nasks = lambda: (kept.recv(16), time.sleep(0.1), kept.sendall(b'two'))\n"
    with server(f"kept.sendall(b'one')\n{asks_again}threading.Thread(target=asks).start()\n") as ours:
        ours.recv(16)
        ours.sendall(b"answer")
        until(waiting, lambda count: count == 1)


def test_who_is_not_accepted_is_counted_apart() -> None:
    """Nobody knows since when he waits."""
    with server("", accept=False):
        assert asked() == Requests(unanswered=0, unaccepted=1, servers=(os.getpid(),))


def test_what_one_that_serves_says_to_those_above_is_no_request() -> None:
    """An engine core asks its API process by TCP, too."""
    with server("kept.sendall(b'ready')\n"):
        (below,) = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[-1:])
        assert waiting() == 1
        assert asked(below, os.getpid()) == Requests(unanswered=0, servers=(below, os.getpid()))


def test_who_has_started_a_server_and_asks_it_is_a_client() -> None:
    """As a benchmark does, or a script of evaluation: it is no part of the server, and judged in no place."""
    with silent_server() as (process, port), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /")
        found = until(
            lambda: asked(process.pid, os.getpid()), lambda found: found is not None and found.unanswered == 1
        )
    assert found is not None and (found.servers, found.held_by) == ((process.pid,), (process.pid,))


@contextmanager
def silent_server() -> Iterator[tuple[Popen[str], int]]:
    """Start a server below, which takes one client and says nothing."""
    port = free_port()
    listens = f"import socket\nserver = socket.create_server(('127.0.0.1', {port}))\n"
    with running(listens + READY + "kept, _ = server.accept()\ntime.sleep(600)\n") as process:
        yield process, port


def test_who_listens_to_nobody_serves_nobody() -> None:
    """Nothing is told of a process that connects to others."""
    with running(READY + "time.sleep(600)\n") as process:
        assert asked(process.pid) is None
