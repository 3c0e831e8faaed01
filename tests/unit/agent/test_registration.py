"""An agent tells collectors that it is there: real HTTP and HTTPS, and a real agent at a real collector."""

import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trustme

from agent.look.digests import Digests
from agent.look.progress_watch import RankProgress
from agent.registration import Registrar, make_registrars, registered
from agent.settings import AgentSettings
from shared.errors import InvalidSettings, Unreachable
from shared.wire.snapshot import Exited, Identity
from tests.build.processes.processes import until
from tests.build.services.discovery_servers import handling


class Collector:
    """What was asked, and what is answered."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None, dict[str, Any]]] = []
        self.ports: list[int] = []
        """From which it was asked."""
        self.hangs_up = False
        """After its answer, of which that says nothing."""
        self.status = 200
        self.body = json.dumps({"host": "n", "url": "http://n:8471", "lease_seconds": 0.3}).encode()


@contextmanager
def serving(collector: Collector, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve PUT on loopback, and give the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            collector.heard.append((self.path, self.headers.get("Authorization"), body))
            self.send_response(collector.status)
            self.send_header("Content-Length", str(len(collector.body)))
            self.end_headers()
            self.wfile.write(collector.body)
            collector.ports.append(self.client_address[1])
            self.close_connection |= collector.hangs_up

        def log_message(self, format: str, *args: object) -> None:
            pass

    with handling(Handler, tls=tls) as url:
        yield url


def settings(url: str, **more: Any) -> AgentSettings:
    """An agent's settings."""
    return AgentSettings.model_validate({"collectors": url, "host_name": "node 7", **more})


def test_registers_with_its_token_and_place(tmp_path: Path) -> None:
    """Name in the path, port and scheme in the body; the URL only where one is given."""
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    collector = Collector()
    with serving(collector) as url:
        Registrar(url, settings(url, listen="0.0.0.0:9000", collector_token_file=token)).register()
        lease = Registrar(f"{url}/base/", settings(url, advertise="https://n:1")).register()
    assert collector.heard == [
        ("/v1/agents/node%207", "Bearer s3cret", {"url": None, "scheme": "http", "port": 9000}),
        ("/base/v1/agents/node%207", None, {"url": "https://n:1", "scheme": "http", "port": 8471}),
    ]
    assert lease.lease_seconds == 0.3


def test_renews_three_times_within_a_lease_and_goes_on_after_a_failure() -> None:
    """All collectors that are named, each by itself: one that is not there holds up nobody."""
    one, other = Collector(), Collector()
    with serving(one) as first, serving(other) as second:
        with registered(settings(f"{first},{second} http://127.0.0.1:9")):
            until(lambda: min(len(one.heard), len(other.heard)), lambda heard: heard >= 6, 60)
        heard = len(one.heard)
        time.sleep(0.3)
        assert len(one.heard) <= heard + 1  # one may have been on its way


def test_says_when_it_is_registered_after_all(caplog: pytest.LogCaptureFixture) -> None:
    """In a line that an agent shows, which configures no logging: else its journal ends with "not registered"."""
    collector = Collector()
    collector.status = 503
    with serving(collector) as url, registered(settings(url)):
        deadline = time.monotonic() + 60
        while "registered at" not in caplog.text and time.monotonic() < deadline:
            collector.status = 200 if collector.heard else 503
            time.sleep(0.02)
    shown = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.startswith("not registered: ") for line in shown] == [True, False]


@pytest.mark.parametrize(
    ("status", "body"), [(403, b'{"detail": "no"}'), (200, b"<html>"), (200, b"{}"), (200, b"\xff" * 100_000)]
)
def test_answer_that_is_no_lease_is_an_error(status: int, body: bytes) -> None:
    """Told as such; the agent tries again later."""
    collector = Collector()
    collector.status, collector.body = status, body
    with serving(collector) as url, pytest.raises(Unreachable):
        Registrar(url, settings(url)).register()


def test_collector_is_believed_by_its_certificate_only(tmp_path: Path) -> None:
    """The token is not given to one that somebody else has signed."""
    authority = trustme.CA()
    trustme.CA().cert_pem.write_to_path(tmp_path / "wrong")
    collector = Collector()
    with serving(collector, signed_by(authority, tmp_path / "right")) as url:
        with closing(Registrar(url, settings(url, collector_ca_file=tmp_path / "right"))) as right:
            right.register()
        with pytest.raises(Unreachable, match="certificate is refused"):
            Registrar(url, settings(url, collector_ca_file=tmp_path / "wrong")).register()
    assert len(collector.heard) == 1


def signed_by(authority: trustme.CA, file: Path) -> ssl.SSLContext:
    """Return what a server on loopback shows, and write down whom to believe."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(file)
    return context


def test_over_tls_one_connection_serves_until_the_other_side_ends_it(tmp_path: Path) -> None:
    """What one that was closed meanwhile does not bring is sent again over a new one, at once."""
    collector = Collector()
    with (
        serving(collector, signed_by(trustme.CA(), tmp_path / "ca")) as url,
        closing(Registrar(url, settings(url, collector_ca_file=tmp_path / "ca"))) as registrar,
    ):
        for hangs_up in (False, False, True, False, False):
            collector.hangs_up = hangs_up
            registrar.register()
    first, *_, last = collector.ports
    assert first != last and collector.ports == [first, first, first, last, last]


def test_without_tls_each_registration_has_a_connection_that_ends_with_it() -> None:
    """A collector answers that without making anything for it."""
    collector = Collector()
    with serving(collector) as url, closing(Registrar(url, settings(url))) as registrar:
        registrar.register()
        registrar.register()
    assert len(set(collector.ports)) == 2


@pytest.mark.parametrize(
    "url", ["node1", "ftp://node1", "http://", "http://n:x", "http://n:99999", "http://n/\x07", "http://a..b"]
)
def test_url_that_is_none_is_refused_at_the_start(url: str) -> None:
    """In one sentence."""
    with pytest.raises(InvalidSettings, match="not the URL of a collector"):
        make_registrars(settings(url))


def test_what_needs_no_collector() -> None:
    """Nobody could ask at port 0; an agent that names no collector starts nothing."""
    with pytest.raises(InvalidSettings, match="port 0"):
        make_registrars(settings("http://n", listen="127.0.0.1:0"))
    before = set(threading.enumerate())
    with registered(AgentSettings()):
        assert set(threading.enumerate()) <= before


def test_tells_its_digest_to_who_asks_for_it() -> None:
    """With each registration once the answer has asked for it, and at once when a state changes; else never."""
    identity = Identity(job="demo", rank=0, world_size=2)
    ranks = [RankProgress(identity, 1.0, 1.0, None, False)]

    class Ranks:
        def progress(self) -> tuple[tuple[RankProgress, ...], tuple[Exited, ...]]:
            return tuple(ranks), ()

    digests = Digests(Ranks())  # type: ignore[arg-type]
    digests.renew()
    asks, asks_not = Collector(), Collector()
    lease = {"host": "n", "url": "http://n:8471", "lease_seconds": 600.0}
    asks.body = json.dumps({**lease, "digest_seconds": 300.0}).encode()
    asks_not.body = json.dumps(lease).encode()
    with serving(asks) as first, serving(asks_not) as second, registered(settings(f"{first} {second}"), digests):
        until(lambda: len(asks.heard), lambda heard: heard >= 2, 60)
        ranks.append(RankProgress(identity.model_copy(update={"rank": 1}), 1.0, 1.0, None, False))
        digests.renew()
        until(lambda: len(asks.heard), lambda heard: heard >= 3, 60)
    told = [body.get("digest") for _, _, body in asks.heard]
    assert told[0] is None
    assert [digest["jobs"][0]["ranks"] for digest in told[1:3]] == [[0], [0, 1]]
    assert all("digest" not in body for _, _, body in asks_not.heard)
