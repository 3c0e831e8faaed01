"""Whoever holds streams, or registers without end, starves himself alone."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from collector.agents.agent_source import parse_one
from collector.agents.registration import registered
from collector.agents.registration.registered import Leases, Registrant
from shared.errors import NotPermitted
from shared.server.connection_limits import Answering
from tests.build.services.services import Service
from tests.system.attacks.served import serve
from tests.unit.collector.agents.registration.test_registered import Clock

MOST = 64
ONE = Answering(MOST).most_of_one
READERS = [f"reader{number}" for number in range(5)]
STREAM = "/v1/events?seconds=600"
PAGE_OF_EVENTS = "/v1/events?after=0&seconds=600"


@contextmanager
def collector(folder: Path) -> Iterator[Service]:
    """A collector with several tokens that may read."""
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{each} may=read\n" for each in READERS) + "agent\n")
    tokens.chmod(0o600)
    given = {"most_connections": MOST, "most_connections_per_client": MOST, "registration_seconds": 60}
    with serve("collector", folder, token_file=tokens, **given) as service:
        yield service


def held(service: Service, token: str, path: str) -> tuple[int, socket.socket]:
    """Begin a request and keep the connection; return its status."""
    connection = service.connection()
    connection.settimeout(60)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return int(connection.recv(4096).split()[1]), connection


def status(service: Service, token: str, method: str = "GET", path: str = "/v1/agents") -> int:
    """Ask once."""
    body = {"url": "http://10.0.0.7:8471"} if method == "PUT" else None
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.request(method, service.plain_url(path), json=body, headers=headers).status_code


@pytest.mark.parametrize("path", [STREAM, PAGE_OF_EVENTS])
def test_one_token_holds_its_share_of_streams(tmp_path: Path, path: str) -> None:
    """The others are answered, agents register, and what is let go of may be had again."""
    with collector(tmp_path) as service, ExitStack() as stack:
        found = [held(service, READERS[0], path) for _ in range(ONE + 8)]
        for _, connection in found:
            stack.enter_context(connection)
        assert [status for status, _ in found] == [200] * ONE + [503] * 8
        assert status(service, READERS[1]) == 200
        assert status(service, "agent", "PUT", "/v1/agents/node7") == 200
        for _, connection in found:
            connection.close()
        for _ in range(100):
            again, connection = held(service, READERS[0], path)
            stack.enter_context(connection)
            if again == 200:
                break
        assert again == 200


def test_many_tokens_leave_room_for_registrations(tmp_path: Path) -> None:
    """Together they hold all that anybody may: agents still register, and a probe is answered."""
    with collector(tmp_path) as service, ExitStack() as stack:
        statuses = []
        for token in READERS:
            for _ in range(ONE):
                answered, connection = held(service, token, STREAM)
                stack.enter_context(connection)
                statuses.append(answered)
        assert statuses.count(200) == MOST - MOST // 8
        assert status(service, "agent") == 503
        assert status(service, "agent", "PUT", "/v1/agents/node7") == 200
        assert status(service, "agent", path="/healthz") == 200


def test_one_address_registers_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token more, whatever addresses it uses; who is lost makes room before anybody is refused."""
    monkeypatch.setattr(registered, "MOST_OF_CLIENT", 3)
    monkeypatch.setattr(registered, "MOST_OF_TOKEN", 5)
    monkeypatch.setattr(registered, "MOST_LEASES", 7)
    clock = Clock()
    leases = Leases(60.0, clock=clock, wall_clock=clock)

    def register(name: str, client: str, token: str) -> bool:
        try:
            leases.renew(parse_one(name), by=Registrant(client, token))
        except NotPermitted:
            return False
        return True

    assert [register(f"a{n}", "10.0.0.1", "eve") for n in range(5)] == [True] * 3 + [False] * 2
    assert [register(f"b{n}", f"10.0.1.{n}", "eve") for n in range(4)] == [True] * 2 + [False] * 2
    assert [register(f"c{n}", f"10.0.2.{n}", "alice") for n in range(3)] == [True] * 2 + [False]
    assert register("a0", "10.0.0.1", "eve"), "who is known is renewed"
    clock.now += 61
    assert register("c0", "10.0.2.0", "alice")
    assert [register(f"d{n}", "10.0.3.1", "alice") for n in range(3)] == [True] * 3
    assert leases.here == 7
    assert "c1" not in leases.live() and "c0" in leases.live()
