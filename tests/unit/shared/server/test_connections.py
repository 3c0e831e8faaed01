"""Who connects to a service: certificates, addresses, silence and nonsense, over real sockets."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.errors import InvalidSettings
from shared.server import connections
from shared.server.tls import ClientTls, TlsFiles
from tests.build.services.certificates import Authority, Signed
from tests.build.services.services import Service, serving, write_token


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of this site."""
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Some other one."""
    return Authority(tmp_path_factory.mktemp("foreign"))


def tls_of(authority: Authority) -> dict[str, Any]:
    """Settings of a service that shows a certificate, and asks for one."""
    server = authority.sign("localhost")
    return {"tls_cert_file": server.certificate, "tls_key_file": server.key, "client_ca_file": authority.file}


@pytest.fixture
def service(ours: Authority, tmp_path: Path) -> Iterator[Service]:
    """A service that asks for a certificate of one of two names."""
    with serving(tmp_path, **tls_of(ours), client_names="collector.example, other.example") as service:
        yield service


def get(url: str, files: TlsFiles, **more: Any) -> httpx.Response:
    """Ask once, over a connection of its own."""
    return httpx.get(url, verify=ClientTls(files).context(), trust_env=False, timeout=60.0, **more)


def test_a_certificate_of_ours_lets_in(service: Service, ours: Authority) -> None:
    """By its common name, or by any other of its names; case does not matter."""
    for names in (("collector.example",), ("Elsewhere", "COLLECTOR.example")):
        answer = get(service.url(), ours.files(ours.sign(*names)))
        assert answer.json() == {"client": "127.0.0.1", "certificate": names[0]}
    assert service.lines() == []


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("expired", "the certificate is refused: certificate has expired"),
        ("foreign", "the certificate is refused: "),
        ("nobody", "no certificate was presented"),
    ],
)
def test_others_are_refused_in_the_handshake(
    service: Service, ours: Authority, foreign: Authority, who: str, said: str
) -> None:
    """They get nothing, and the audit log says why."""
    signed: dict[str, Signed | None] = {
        "expired": ours.sign("collector.example", expired=True),
        "foreign": foreign.sign("collector.example"),
        "nobody": None,
    }
    with pytest.raises(httpx.TransportError):
        get(service.url(), ours.files(signed[who]))
    (line,) = service.lines(1)
    assert (line["action"], line["client"], line["reason"]) == ("refused", "127.0.0.1", "tls_handshake_failed")
    assert said in line["detail"]


def test_a_name_that_is_not_on_the_list(service: Service, ours: Authority) -> None:
    """A good certificate of somebody else: near misses of the name do not count."""
    for name in ("collector.example.org", "xcollector.example", "stranger.example"):
        with pytest.raises(httpx.TransportError):
            get(service.url(), ours.files(ours.sign(name)))
    assert [line["reason"] for line in service.lines(3)] == ["certificate_name_not_allowed"] * 3
    assert service.lines()[2]["detail"] == "stranger.example"


def test_what_is_no_tls(service: Service) -> None:
    """Plain HTTP, and rubbish."""
    with pytest.raises(httpx.TransportError):
        httpx.get(service.plain_url(), trust_env=False, verify=False)
    with service.connection() as client:
        client.sendall(b"\0" * 1000)
        assert read(client) == b""
    lines = service.lines(2)
    assert {line["reason"] for line in lines} == {"tls_handshake_failed"}
    assert lines[0]["detail"] == "the client used plain HTTP; this service requires TLS"


def test_old_versions_of_tls_are_not_spoken(service: Service, ours: Authority) -> None:
    """A session of TLS 1.2 could be resumed after its certificate has expired."""
    context = ClientTls(ours.files(ours.sign("collector.example"))).context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url(), verify=context, trust_env=False)
    assert service.lines(1)[0]["detail"] == "unsupported protocol"


def test_certificates_are_renewed_without_a_restart(ours: Authority, foreign: Authority, tmp_path: Path) -> None:
    """New files count for new connections; broken ones do not; an authority that is taken out is believed no more."""
    files = {name: tmp_path / name for name in ("cert", "key", "ca")}

    def install(authority: Authority) -> None:
        signed = authority.sign("localhost")
        for name, source in zip(files, (signed.certificate, signed.key, authority.file), strict=True):
            (tmp_path / "new").write_bytes(source.read_bytes())
            (tmp_path / "new").chmod(0o600)
            os.replace(tmp_path / "new", files[name])

    install(ours)
    mine, theirs = ours.files(ours.sign("a.example")), foreign.files(foreign.sign("b.example"))
    settings = {"tls_cert_file": files["cert"], "tls_key_file": files["key"], "client_ca_file": files["ca"]}
    with serving(tmp_path, **settings) as service:
        assert get(service.url(), mine).status_code == 200
        files["cert"].write_text("broken")
        assert get(service.url(), mine).status_code == 200
        install(foreign)
        assert get(service.url(), theirs).status_code == 200
        with pytest.raises(httpx.TransportError):
            get(service.url(), mine)
        with pytest.raises(httpx.TransportError):  # believes the server now, and is not believed
            get(service.url(), TlsFiles(mine.certificate, mine.key, foreign.file))
    assert "refused" in service.lines(2)[-1]["detail"]


def test_addresses_that_are_not_allowed(tmp_path: Path) -> None:
    """They are turned away before anything is read."""
    with serving(tmp_path, allow_clients="10.0.0.0/8, 192.168.1.5") as service:
        with pytest.raises(httpx.TransportError):
            httpx.get(service.plain_url(), trust_env=False, verify=False)
        assert service.lines(1)[0]["reason"] == "address_not_allowed"
    with serving(tmp_path / "..", allow_clients="127.0.0.0/8") as service:
        assert httpx.get(service.plain_url(), trust_env=False, verify=False).status_code == 200


@pytest.mark.parametrize(
    ("client", "admitted"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("fe80::1%eth0", True),
        ("fe81::1", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_networks(client: str, admitted: bool) -> None:
    """An IPv4 address counts in its IPv6 spelling too; what is no address is not let in."""
    from shared.server.accepting.connection_guard import ConnectionGuard
    from shared.server.addresses import parse_networks
    from shared.server.audit import AuditLog

    guard = ConnectionGuard(AuditLog(None), None, parse_networks("10.0.0.0/8 fe80::/16"))
    assert guard.admits(client) is admitted


def test_whoever_is_silent_is_let_go(ours: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the handshake, before a request, in the middle of its head: no connection can be held for nothing."""
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with serving(tmp_path, **tls_of(ours)) as service, service.connection() as client:
        assert client.recv(10) == b""
        assert service.lines(1)[0]["reason"] == "tls_handshake_failed"
    with serving(tmp_path) as service:
        for said in (
            (b"",),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\n",),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET"),
        ):
            with service.connection() as client:
                with suppress(ConnectionError):  # it may have been let go before it has said all that
                    for part in said:
                        client.sendall(part)
                        time.sleep(0.1)
                while read(client):
                    pass
    assert [line["reason"] for line in service.lines(4)[1:]] == ["too_slow"] * 3


def read(client: socket.socket) -> bytes:
    """Read until the other side ends it, in whatever way."""
    try:
        return client.recv(65_536)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("said", "reason"),
    [(b"nonsense\r\n\r\n", "malformed"), (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, "too_large")],
    ids=["rubbish", "no end"],
)
def test_what_is_no_request(tmp_path: Path, said: bytes, reason: str) -> None:
    """Rubbish, and a head without end: one line each, and the connection is over."""
    with serving(tmp_path) as service, service.connection() as client:
        with suppress(ConnectionError):
            client.sendall(said)
        while read(client):
            pass
        assert [line["reason"] for line in service.lines(1)] == [reason]


def test_a_large_request_in_the_first_flight_is_read_whole(service: Service, ours: Authority) -> None:
    """What comes with the end of the handshake is not lost."""
    context = ClientTls(ours.files(ours.sign("collector.example"))).context()
    answer = httpx.post(service.url(), json={"x": "y" * 60_000}, verify=context, trust_env=False)
    assert len(answer.json()["x"]) == 60_000


def test_forwarded_addresses_are_not_believed(tmp_path: Path) -> None:
    """A local process cannot choose the name it is logged under."""
    with serving(tmp_path) as service:
        answer = httpx.get(service.plain_url(), headers={"X-Forwarded-For": "10.9.9.9"}, trust_env=False, verify=False)
    assert answer.json() == {"client": "127.0.0.1"}


def test_files_that_cannot_be_used(ours: Authority, foreign: Authority, tmp_path: Path) -> None:
    """Each is one sentence at the start."""
    good, other = ours.sign("localhost", file="a"), foreign.sign("localhost")
    open_key = tmp_path / "open.key"
    open_key.write_bytes(good.key.read_bytes())
    open_key.chmod(0o644)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tls_cert_file": good.certificate, "tls_key_file": other.key}, "cannot be used: key values mismatch"),
        ({"tls_cert_file": good.certificate, "tls_key_file": open_key}, "accessible to others"),
        ({"tls_cert_file": good.certificate, "tls_key_file": tmp_path / "none"}, "cannot be read"),
        ({"tls_key_file": good.key}, "needs a certificate"),
        ({"client_ca_file": ours.file}, "needs a certificate"),
        ({"client_names": "x"}, "needs a certificate"),
        (
            {"tls_cert_file": good.certificate, "tls_key_file": good.key, "client_names": "x"},
            "none are requested",
        ),
        (
            {"tls_cert_file": good.certificate, "tls_key_file": good.key, "client_ca_file": good.key},
            "authorities in",
        ),
        ({"allow_clients": "10.0.0.1/8"}, "is not a network"),
        ({"allow_hosts": "unhang.example:443"}, "is not a host name"),
    ]
    for given, said in wrong:
        with pytest.raises(InvalidSettings, match=said), serving(tmp_path, **given):
            pass


def test_refusals_behind_the_door_are_written_down_too(tmp_path: Path) -> None:
    """No token, a wrong one, a body that is too large or never comes: what was asked for, and by whom."""
    tokens = write_token(tmp_path)
    with serving(tmp_path, token_file=tokens) as service:

        def ask(token: str | None, size: int = 10) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            url = service.plain_url("/?secret=hunter2")
            return httpx.post(url, json={"x": "y" * size}, headers=headers, trust_env=False, verify=False).status_code

        assert [ask(None), ask("wrong"), ask("right", 70_000), ask("right")] == [401, 401, 413, 200]
        lines = service.lines(3)
        assert [line["reason"] for line in lines] == ["no_token", "wrong_token", "too_large"]
        assert {line["what"] for line in lines} == {"POST /"}
        tokens.chmod(0o666)
        assert ask("right") == 500
    assert "accessible to others" in service.lines(4)[3]["detail"]
    assert "right" not in str(service.lines())
    assert "hunter2" not in str(service.lines())


def reply_to(service: Service, request: bytes) -> bytes:
    """Say something and return the beginning of the answer; nothing where the connection is cut instead."""
    with service.connection() as connection, suppress(ConnectionError):
        with suppress(ConnectionError):
            for at in range(0, len(request), 20_000):
                connection.sendall(request[at : at + 20_000])
                time.sleep(0.02)
        return connection.recv(65_536)
    return b""


@pytest.mark.parametrize("token", ["right", "wrong"])
def test_head_that_is_too_large_is_refused_as_that(tmp_path: Path, token: str) -> None:
    """In one field, in many, in the path, whole or without an end; and the answer does not say it all back."""
    tokens = write_token(tmp_path)
    fields = f"Host: x\r\nAuthorization: Bearer {token}\r\n".encode()
    large, many = b"y" * 70_000, b"".join(b"X-%d: %s\r\n" % (at, b"y" * 100) for at in range(1000))
    heads = [
        b"GET / HTTP/1.1\r\n" + fields + b"X: " + large + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + fields + many + b"\r\n",
        b"GET /" + large + b" HTTP/1.1\r\n" + fields + b"\r\n",
        b"GET / HTTP/1.1\r\n" + fields + b"X: " + large,
    ]
    with serving(tmp_path, token_file=tokens) as service:
        for number, head in enumerate(heads, start=1):
            answer = reply_to(service, head)
            assert answer == b"" or answer.split()[1] in (b"431", b"400")
            assert len(answer) < 2_000
            assert [line["reason"] for line in service.lines(number)] == ["too_large"] * number
    assert max(len(str(line)) for line in service.lines()) < 1_000


def test_head_that_is_too_large_at_once_is_refused_as_well(tmp_path: Path) -> None:
    """Where all of it came in one piece, the server has read it whole."""
    with serving(tmp_path) as service:
        answer = httpx.get(service.plain_url(), headers={"X": "y" * 70_000}, trust_env=False, verify=False)
        assert answer.status_code in (400, 431)
        assert [line["reason"] for line in service.lines(1)] == ["too_large"]


def test_who_hangs_up_without_a_word_is_nobody(service: Service) -> None:
    """So do probes of the port, all day; the next who has something to say is written down."""
    for _ in range(5):
        service.connection().close()
    with pytest.raises(httpx.TransportError):
        httpx.get(service.plain_url(), trust_env=False, verify=False)
    assert [line["detail"] for line in service.lines(1)] == ["the client used plain HTTP; this service requires TLS"]


@pytest.mark.parametrize("over_tls", [False, True])
def test_answers_are_sent_at_once(
    over_tls: bool, ours: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Nagle's delay: a body follows a head that nobody has acknowledged, 40 ms on a connection that is kept."""
    options = []
    begin = connections._Http.connection_made

    def connection_made(self: connections._Http, transport: asyncio.Transport) -> None:
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        begin(self, transport)

    monkeypatch.setattr(connections._Http, "connection_made", connection_made)
    with serving(tmp_path, **(tls_of(ours) if over_tls else {})) as service:
        if over_tls:
            get(service.url(), ours.files(ours.sign("collector.example")))
        else:
            httpx.get(service.plain_url(), trust_env=False, verify=False, timeout=60.0)
    assert len(options) == 1 and options[0]
