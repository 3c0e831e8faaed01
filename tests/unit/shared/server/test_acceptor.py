"""Connections are taken in many at a time while many plain requests come, and none waits for long because of that."""

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from collector.renewals import Renewals
from shared.server.accepting import acceptor
from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.connection_limits import Connections
from shared.server.plain_requests import MOST_BYTES, Pace
from tests.build.services.services import Service
from tests.system.attacks.served import serve
from tests.unit.shared.server.test_plain_requests import FIELDS, written

RENEWAL = written(*FIELDS)
MANY = 40
"""More than count as many."""


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Service]:
    """A collector at which the agent that renews is registered."""
    with serve("collector", tmp_path, registration_seconds=60.0) as service:
        assert answer_of(asked(service, RENEWAL)).startswith(b"HTTP/1.1 200 ")
        yield service


def asked(service: Service, request: bytes) -> socket.socket:
    connection = service.connection()
    connection.sendall(request)
    return connection


def answer_of(connection: socket.socket) -> bytes:
    """Return all that comes until the service closes."""
    said = b""
    with connection:
        while more := connection.recv(65_536):
            said += more
    return said


def renew_many(service: Service) -> list[bytes]:
    connections = [asked(service, RENEWAL) for _ in range(MANY)]
    return [answer_of(each) for each in connections]


def test_many_at_once_are_all_answered_alike(collector: Service) -> None:
    said = renew_many(collector)
    assert said[0].startswith(b"HTTP/1.1 200 ")
    assert {each.partition(b"\r\n\r\n")[2] for each in said} == {said[0].partition(b"\r\n\r\n")[2]}


def test_many_within_a_second_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Pace()
    assert not pace.is_high()
    for _ in range(MANY):
        pace.note()
    assert pace.is_high()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 5.0)
    assert not pace.is_high()


def test_while_many_come_a_person_waits_no_longer_than_connections_are_gathered(
    collector: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not at all once few come."""
    monkeypatch.setattr(acceptor, "GATHERED_SECONDS", 1.5)
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for many, least, most in ((True, 0.0, 1.4), (False, 0.5, 20.0), (False, 0.0, 1.4)):
        monkeypatch.setattr(Pace, "is_high", lambda _, many=many: many)
        began = time.monotonic()
        assert answer_of(asked(collector, health)).startswith(b"HTTP/1.1 200 ")
        assert least <= time.monotonic() - began < most


def test_no_connection_is_made_for_a_plain_request_that_is_there_already(
    collector: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While connections are gathered, all have brought theirs before they are looked at."""
    monkeypatch.setattr(acceptor, "GATHERED_SECONDS", 1.5)
    monkeypatch.setattr(Pace, "is_high", lambda _: True)
    answer_of(asked(collector, RENEWAL))
    monkeypatch.setattr(Connections, "enter", lambda *_: None)  # none is let in
    assert all(said.startswith(b"HTTP/1.1 200 ") for said in renew_many(collector))


def test_one_that_no_answer_is_ready_for_is_asked_about_once_and_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there before its connection is looked at, and the route answers it."""
    seen: list[object] = []
    monkeypatch.setattr(Renewals, "answer", lambda _, request: seen.append(request))
    monkeypatch.setattr(Pace, "is_high", lambda _: True)
    monkeypatch.setattr(acceptor, "GATHERED_SECONDS", 0.5)
    with serve("collector", tmp_path, registration_seconds=60.0) as service:
        for _ in range(3):
            assert answer_of(asked(service, RENEWAL)).startswith(b"HTTP/1.1 200 ")
    assert len(seen) == 3


def test_one_that_comes_in_pieces_is_put_together(collector: Service) -> None:
    connection = asked(collector, RENEWAL[:50])
    time.sleep(0.2)
    connection.sendall(RENEWAL[50:])
    assert answer_of(connection).startswith(b"HTTP/1.1 200 ")


def test_what_is_longer_than_any_plain_request_is_refused_as_ever(collector: Service) -> None:
    with asked(collector, b"PUT /v1/agents/node07 HTTP/1.1\r\nX: " + b"x" * MOST_BYTES) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_mistake_while_many_come_does_not_end_the_accepting(
    collector: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets nothing; the next one does."""
    monkeypatch.setattr(Pace, "is_high", lambda _: True)
    original, failed = ConnectionGuard.answer_at_once, []

    def answer(guard: ConnectionGuard, data: bytes, client: str) -> bytes | None:
        if not failed:
            failed.append(True)
            raise LookupError("made for this test")
        return original(guard, data, client)

    answer_of(asked(collector, RENEWAL))
    monkeypatch.setattr(ConnectionGuard, "answer_at_once", answer)
    with suppress(ConnectionResetError):
        assert answer_of(asked(collector, RENEWAL)) == b""
    assert answer_of(asked(collector, RENEWAL)).startswith(b"HTTP/1.1 200 ")


def test_a_service_without_descriptors_accepts_again_when_it_has_some(
    collector: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "_WITHOUT_ROOM_SECONDS", 0.3)
    original, failed = socket.socket.accept, []

    def accept(listening: socket.socket) -> tuple[socket.socket, object]:
        if len(failed) < 2:
            failed.append(True)
            raise OSError(errno.EMFILE, "Too many open files")
        return original(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    assert answer_of(asked(collector, RENEWAL)).startswith(b"HTTP/1.1 200 ")
    assert len(failed) == 2 and "Too many open files" in caplog.text
