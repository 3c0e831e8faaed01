"""Over TLS an agent's connection is kept for its next registration, and holds nobody else up."""

import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from shared.server import connections
from shared.server.accepting import kept_connections
from shared.server.tls import ClientTls
from tests.build.services.certificates import Authority
from tests.build.services.services import Service, write_token
from tests.system.attacks.served import serve
from tests.unit.shared.server.test_connections import read
from tests.unit.shared.server.test_plain_requests import FIELDS, written

RENEWAL = written(*(field.replace(b"close", b"keep-alive") for field in FIELDS))
Started = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Who has signed the collector's certificate."""
    return Authority(tmp_path / "pki")


@pytest.fixture
def collector(authority: Authority, tmp_path: Path) -> Started:
    """Starts a collector with TLS and a token."""
    signed = authority.sign("localhost")

    def start() -> AbstractContextManager[Service]:
        tls = {"tls_cert_file": signed.certificate, "tls_key_file": signed.key}
        return serve("collector", tmp_path, registration_seconds=60.0, token_file=write_token(tmp_path), **tls)

    return start


@pytest.fixture
def connect(authority: Authority) -> Iterator[Callable[[Service], ssl.SSLSocket]]:
    """Shakes hands, for as long as the test lasts."""
    context = ClientTls(authority.files(None)).context()
    with ExitStack() as stack:
        yield lambda service: stack.enter_context(
            context.wrap_socket(service.connection(), server_hostname="localhost")
        )


def asked(connection: ssl.SSLSocket, request: bytes = RENEWAL) -> tuple[int, bool]:
    """Return the status of the answer, and whether the connection is kept; else it is closed here, too."""
    connection.sendall(request)
    answer = HTTPResponse(connection, method="PUT")
    answer.begin()
    answer.read()
    if answer.will_close:
        connection.close()
    return answer.status, not answer.will_close


@pytest.fixture
def service(collector: Started, connect: Callable[[Service], ssl.SSLSocket]) -> Iterator[Service]:
    """A collector at which the agent is registered."""
    with collector() as service:
        assert asked(connect(service)) == (200, False)  # the route has looked into where it leads
        yield service


def test_one_connection_brings_one_after_the_other(service: Service, connect: Any) -> None:
    kept = connect(service)
    assert [asked(kept) for _ in range(3)] == [(200, True)] * 3


def test_each_request_needs_its_own_token(service: Service, connect: Any) -> None:
    """And what is not plain is read as on any connection."""
    kept = connect(service)
    assert asked(kept) == (200, True)
    assert asked(kept, RENEWAL.replace(b"Bearer right", b"Bearer wrong"))[0] == 401
    kept = connect(service)
    assert asked(kept) == (200, True)
    assert asked(kept, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == (200, True)


def test_so_many_are_kept_and_the_others_shake_hands_each_time(
    collector: Started, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None that is kept goes for another, and none takes the place of a person's connection."""
    monkeypatch.setattr(kept_connections, "MOST_KEPT_OF_ONE", 2)
    with collector() as service:
        asked(connect(service))
        several = [connect(service) for _ in range(3)]
        assert [asked(each) for each in several] == [(200, True), (200, True), (200, False)]
        assert [asked(each) for each in several[:2]] == [(200, True)] * 2
        several[0].close()
        assert until_kept(lambda: connect(service))


def until_kept(connect: Callable[[], ssl.SSLSocket]) -> bool:
    """Is one kept before long?"""
    for _ in range(100):
        if asked(connect())[1]:
            return True
        time.sleep(0.05)
    return False


def test_it_ends_after_a_while_without_a_word(service: Service, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was wrong with who held it. Half a request is waited for as on any connection."""
    kept = connect(service)
    monkeypatch.setattr(connections, "KEPT_FOR_PLAIN_SECONDS", 0.5)
    assert asked(kept) == (200, True)
    assert read(kept) == b""
    assert service.lines() == []
    kept = connect(service)
    monkeypatch.undo()
    assert asked(kept) == (200, True)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    kept.sendall(RENEWAL[:50])
    while read(kept):
        pass
    assert [line["reason"] for line in service.lines(1)] == ["too_slow"]


def test_a_certificate_that_is_new_ends_what_the_one_before_began(
    service: Service, connect: Any, authority: Authority
) -> None:
    kept = connect(service)
    assert asked(kept) == (200, True)
    new = authority.sign("localhost", file="new")
    for file in ("certificate", "key"):
        shutil.move(getattr(new, file), getattr(new, file).with_stem("localhost"))
    assert asked(kept) == (200, False)


def test_a_collector_that_ends_waits_for_none_of_them(collector: Started, connect: Any) -> None:
    with collector() as service:
        asked(connect(service))
        kept = connect(service)
        assert asked(kept) == (200, True)
        began = time.monotonic()
    assert time.monotonic() - began < 4.0  # less than the grace for what is being answered
    assert read(kept) == b""
