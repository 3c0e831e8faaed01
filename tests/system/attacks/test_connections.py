"""Idle connections do not make others wait, and a probe is always answered."""

import resource
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from shared.server import connections
from shared.server.accepting.access_settings import AccessSettings
from shared.server.audit import AuditLog
from shared.server.connection_limits import RESERVED, Connections, affordable, client_of
from tests.build.services.certificates import Authority
from tests.build.services.services import Service, make_app, serving
from tests.build.services.services import running as service_running
from tests.unit.collector.test_serve import running

MANY = 1600
"""More than the collector holds of one address."""


@contextmanager
def idle(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(count)]


def asked(service: Service, path: str = "/") -> int:
    """Ask on a new connection."""
    return httpx.get(service.plain_url(path), timeout=30, trust_env=False, verify=False).status_code


def ended(connections: list[socket.socket], least: int) -> list[int]:
    """Return which of these the other side has closed, once there are so many."""
    until = time.monotonic() + 60
    while True:
        poll = select.poll()
        places = {each.fileno(): at for at, each in enumerate(connections)}
        for each in connections:
            poll.register(each, select.POLLIN)
        found = sorted(places[fd] for fd, _ in poll.poll(0))
        if len(found) >= least:
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def test_the_collector_answers_beside_idle_connections(tmp_path: Path) -> None:
    """More of them than it holds, from its own address: probes and questions are answered, and soon."""
    with running(tmp_path) as (url, _), idle(int(url.rpartition(":")[2]), MANY):
        for path in ("/healthz", "/v1/agents", "/healthz"):
            assert httpx.get(f"{url}{path}", timeout=8, trust_env=False, verify=False).status_code == 200


def test_who_fills_the_service_loses_its_own_connections(tmp_path: Path) -> None:
    """The oldest go; whoever has asked, and keeps its connection, stays."""
    with (
        serving(tmp_path, most_connections=16, most_connections_per_client=16) as service,
        httpx.Client(base_url=service.plain_url(""), trust_env=False, verify=False) as kept,
    ):
        kept.get("/")
        with idle(service.port, 20) as silent:
            assert kept.get("/").status_code == 200
            assert asked(service) == 200
            assert ended(silent, 6) == [0, 1, 2, 3, 4, 5]
            assert kept.get("/").status_code == 200
        assert {line["reason"] for line in service.lines(6)} == {"too_many_connections"}


def test_a_body_that_does_not_come_counts_as_idle(tmp_path: Path) -> None:
    """Half a request holds no place for longer than none."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with serving(tmp_path, most_connections=8, most_connections_per_client=8) as service, idle(service.port, 8) as slow:
        for each in slow:
            each.sendall(head)
        time.sleep(0.3)
        assert asked(service) == 200
        assert ended(slow, 1) == [0]


@contextmanager
def with_a_large_page(folder: Path, **given: int) -> Iterator[Service]:
    """A service whose page that needs no token is more than the kernel holds for who does not read."""
    settings = AccessSettings(listen="127.0.0.1:0", audit_log=folder / "audit.jsonl", **given)
    audit = AuditLog(settings.audit_log)
    app = make_app(settings, audit)
    app.description = "x" * 16_000_000
    with service_running(app, settings, audit) as service:
        yield service


@contextmanager
def not_reading(service: Service, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that ask for that page twice and take no more than its beginning: the second waits."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in opened:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            each.connect(("127.0.0.1", service.port))
            each.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            assert each.recv(1) == b"H"
        yield opened


def test_a_client_that_does_not_read_counts_as_idle(tmp_path: Path) -> None:
    """`/openapi.json` needs no token, and nobody has to read it: no place is held by that."""
    with with_a_large_page(tmp_path, most_connections=8, most_connections_per_client=8) as service:
        with not_reading(service, 8) as unread:
            time.sleep(1)
            assert [asked(service) for _ in range(3)] == [200] * 3
            assert ended(unread, 1)[0] == 0
        assert {line["reason"] for line in service.lines(1)} == {"too_many_connections"}


def test_a_client_that_does_not_read_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is not kept for it."""
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    with with_a_large_page(tmp_path) as service, not_reading(service, 3) as unread:
        assert ended(unread, 3) == [0, 1, 2]
        assert {line["reason"] for line in service.lines(3)} == {"too_slow"}


def test_handshakes_that_do_not_go_on_lock_nobody_out(tmp_path: Path) -> None:
    """With TLS, too, the oldest of those that say nothing give way."""
    authority = Authority(tmp_path / "pki")
    server = authority.sign("localhost")
    tls = {"tls_cert_file": server.certificate, "tls_key_file": server.key}
    with serving(tmp_path, **tls) as service, idle(service.port, 200):
        context = ssl.create_default_context(cafile=str(authority.file))
        answer = httpx.get(service.url("/"), verify=context, timeout=30, trust_env=False)
    assert answer.status_code == 200


def test_when_all_are_answered_only_a_probe_is() -> None:
    """Rule 4: nobody who is being answered goes, and a few more come in."""
    held = Connections(8, most_of_one=8)
    guests = []
    for at in range(8 + RESERVED):
        guest = held.enter(f"10.0.0.{at}", lambda: pytest.fail("it was being answered"))
        assert guest is not None
        guest.note(busy=True)
        guests.append(guest)
    assert held.enter("10.0.1.1", lambda: None) is None
    assert held.is_full("10.0.0.1")
    for guest in guests[8:]:
        guest.leave()
    assert not held.is_full("10.0.0.1")


def test_whoever_holds_most_gives_way() -> None:
    """An agent with one idle connection does not go for a client with many."""
    gone: list[str] = []
    held = Connections(8, most_of_one=8)
    for at, client in enumerate(["10.0.0.1", *["10.0.0.2"] * 7]):
        held.enter(client, lambda name=f"{client} {at}": gone.append(name))  # type: ignore[misc]
    for _ in range(3):
        held.enter("10.0.0.3", lambda: gone.append("a newcomer"))
    assert gone == ["10.0.0.2 1", "10.0.0.2 2", "10.0.0.2 3"]
    assert len(held) == 8


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9%eth0", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("unknown", "unknown"),
    ],
)
def test_what_is_one_client(address: str, client: str) -> None:
    """A host with IPv6 has a network of addresses to itself."""
    assert client_of(address) == client


def test_fewer_connections_where_few_files_may_be_open() -> None:
    """Half of the descriptors, so that the next connection is accepted in any case."""
    program = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 100))\n"
    program += "from shared.server.connection_limits import affordable\nprint(affordable(512), resource.getrlimit(7))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "50 (100, 100)\n"
    assert affordable(8) == 8
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 64
