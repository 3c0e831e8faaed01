"""Plain requests are those that HTTP's own reader reads alike, and no others; on sockets they get the same answer."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.registration import make_registrars
from agent.settings import AgentSettings
from collector.renewals import Renewals
from shared.server.plain_requests import MOST_BYTES, PlainRequest, parse_plain
from shared.server.tls import ClientTls
from shared.wire.registration import Registration
from tests.build.services.certificates import Authority
from tests.build.services.services import Service
from tests.system.attacks.served import serve

BODY = b'{"url": "http://127.0.0.1:8471"}'
FIELDS = (
    b"Host: localhost:8470",
    b"Accept-Encoding: identity",
    b"Content-Length: %d" % len(BODY),
    b"Content-Type: application/json",
    b"Connection: close",
    b"Authorization: Bearer right",
)
FIRST = b"PUT /v1/agents/node07 HTTP/1.1"


def written(*fields: bytes, first: bytes = FIRST, body: bytes = BODY) -> bytes:
    return b"\r\n".join((first, *fields, b"", body))


def test_what_agents_send_is_plain() -> None:
    request = parse_plain(written(*FIELDS), "10.0.0.1")
    assert request == ("10.0.0.1", "/v1/agents/node07", "localhost:8470", b"right", BODY, False)
    without = parse_plain(written(*FIELDS[:-1]), "10.0.0.1")
    assert without is not None and without.token is None


NOT_PLAIN = {
    "more fields": written(*FIELDS, b"X-Forwarded-For: 10.0.0.2"),
    "from a page": written(*FIELDS, b"Origin: http://localhost:8470"),
    "a field twice": written(*FIELDS, b"authorization: Bearer other"),
    "two lengths": written(*FIELDS, b"Content-Length: 3"),
    "chunks": written(*FIELDS, b"Transfer-Encoding: chunked"),
    "upgraded": written(*(field.replace(b"close", b"upgrade") for field in FIELDS)),
    "silent on what follows": written(*(field for field in FIELDS if not field.startswith(b"Connection"))),
    "no host": written(*FIELDS[1:]),
    "no body": written(*(field.replace(b"%d" % len(BODY), b"0") for field in FIELDS), body=b""),
    "a shorter body": written(*FIELDS, body=BODY[:-1]),
    "another request behind it": written(*FIELDS) + b"GET / HTTP/1.1\r\n\r\n",
    "another length": written(*(field.replace(b"Length: ", b"Length: 0") for field in FIELDS)),
    "a folded line": written(*FIELDS[:-1], b"Authorization: Bearer\r\n right"),
    "a bare line feed": written(*FIELDS).replace(b"\r\n", b"\n"),
    "a space before the colon": written(*FIELDS[:-1], b"Authorization : Bearer right"),
    "another scheme": written(*FIELDS[:-1], b"Authorization: Basic right"),
    "two spaces": written(*FIELDS[:-1], b"Authorization: Bearer  right"),
    "half of it": written(*FIELDS)[:60],
    "another method": written(*FIELDS, first=FIRST.replace(b"PUT", b"POST")),
    "old": written(*FIELDS, first=FIRST.replace(b"1.1", b"1.0")),
    "a question": written(*FIELDS, first=FIRST.replace(b"node07", b"node07?x")),
    "an escape": written(*FIELDS, first=FIRST.replace(b"node07", b"node%30")),
    "no text": b"\x16\x03\x01",
    "nothing": b"",
    "too long": written(
        *(field.replace(b"%d" % len(BODY), b"%d" % MOST_BYTES) for field in FIELDS), body=b"x" * MOST_BYTES
    ),
}


@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_what_is_not_plain(data: bytes) -> None:
    assert parse_plain(data, "10.0.0.1") is None


_PIECES = st.sampled_from(
    [*FIELDS, FIRST, b"\r\n", b"\n", b" ", b":", b"\0", b"\x80", BODY, b"Content-Length: 4", b"a"]
)


@given(
    data=st.tuples(st.permutations(FIELDS), st.lists(st.tuples(st.integers(0, 400), _PIECES), max_size=3)).map(
        lambda drawn: _with(written(*drawn[0]), drawn[1])
    )
)
def test_what_is_plain_is_read_alike_by_any_reader(data: bytes) -> None:
    """However a request is put together or damaged."""
    request = parse_plain(data, "10.0.0.1")
    if request is None:
        return
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    head, body, end = reader.next_event(), reader.next_event(), reader.next_event()
    assert isinstance(head, h11.Request) and isinstance(body, h11.Data) and isinstance(end, h11.EndOfMessage)
    fields = dict(head.headers)
    assert (head.method, head.target.decode(), bytes(body.data)) == (b"PUT", request.path, request.body)
    assert fields[b"host"].decode() == request.host
    assert fields.get(b"authorization") == (None if request.token is None else b"Bearer " + request.token)
    assert set(fields) <= {each.partition(b":")[0].lower() for each in FIELDS} and len(fields) == len(head.headers)
    assert reader.trailing_data[0] == b"" and reader.their_state is h11.MUST_CLOSE


def _with(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    for at, piece in changes:
        data = data[: at % (len(data) + 1)] + piece + data[at % (len(data) + 1) :]
    return data


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """What was answered at once, and None for what was left to others."""
    answers: list[bytes | None] = []
    original = Renewals.answer

    def noting(renewals: Renewals, request: PlainRequest) -> bytes | None:
        answers.append(original(renewals, request))
        return answers[-1]

    monkeypatch.setattr(Renewals, "answer", noting)
    return answers


@pytest.fixture
def collector(at_once: list[bytes | None], tmp_path: Path) -> Iterator[Service]:
    """A collector that takes registrations."""
    assert at_once == []
    with serve("collector", tmp_path, registration_seconds=60.0) as service:
        yield service


def test_on_a_socket_the_answer_is_the_one_that_others_get(collector: Service, at_once: list[bytes | None]) -> None:
    """Also where it was read as any request is, for one field more."""
    others = written(*FIELDS, b"Accept: */*")
    first, plain, read = (_said(collector.connection(), data) for data in (others, written(*FIELDS), others))
    assert plain == read and plain[1] == first[1] and at_once == [plain[1]]


def test_over_tls_too(tmp_path: Path, at_once: list[bytes | None]) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("localhost")
    tls = {"tls_cert_file": signed.certificate, "tls_key_file": signed.key}
    context = ClientTls(authority.files(None)).context()
    with serve("collector", tmp_path, registration_seconds=60.0, **tls) as service:
        for data in (written(*FIELDS, b"Accept: */*"), written(*FIELDS)):
            said = _said(context.wrap_socket(service.connection(), server_hostname="localhost"), data)
    assert at_once == [said[1]]


def test_nobody_else_is_answered_at_once(tmp_path: Path, at_once: list[bytes | None]) -> None:
    """One that asks for another host is refused before that, and the route says what is wrong with a body."""
    with serve("collector", tmp_path, registration_seconds=60.0) as service:
        elsewhere = written(*(field.replace(b"localhost", b"elsewhere") for field in FIELDS))
        with service.connection() as connection:
            connection.sendall(elsewhere)
            assert connection.recv(100).startswith(b"HTTP/1.1 421 ")
        assert at_once == []
        with service.connection() as connection:
            connection.sendall(written(*(field.replace(b"%d" % len(BODY), b"2") for field in FIELDS), body=b"[]"))
            assert connection.recv(100).startswith(b"HTTP/1.1 422 ")
        assert at_once == [None]


def test_an_agent_of_ours_is_plain(collector: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends is what is answered at once."""
    sent: list[bytes] = []
    (registrar,) = make_registrars(
        AgentSettings(collectors=f"http://127.0.0.1:{collector.port}", listen="127.0.0.1:8471")
    )
    original = socket.socket.sendall

    def noting(to: socket.socket, data: bytes) -> None:
        sent.append(bytes(data))
        original(to, data)

    monkeypatch.setattr(socket.socket, "sendall", noting)
    registrar.register()
    (request,) = (parse_plain(data, "127.0.0.1") for data in sent if data.startswith(b"PUT"))
    assert request is not None and request.path.startswith("/v1/agents/")
    assert Registration.model_validate_json(request.body).port == 8471


def _said(connection: socket.socket, data: bytes) -> tuple[dict[str, str], bytes]:
    """Return the fields of the answer, but for when it was given, and its body."""
    with connection:
        connection.sendall(data)
        said = b""
        while more := connection.recv(65_536):
            said += more
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), said
    fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
    assert fields.pop("date").endswith("gmt") and json.loads(body)["host"] == "node07"
    return fields, body
