"""How our services treat connections on which nobody asks."""

import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from collector.gather.fanout.connection_pools import IDLE_SECONDS
from shared.server import run
from shared.server.run import KEPT_SECONDS
from tests.build.services.services import serving


def test_a_client_gives_up_an_idle_connection_long_before_the_service_does() -> None:
    """Else both would at the same moment, and a question be lost on a connection that is just being closed."""
    assert 2 * IDLE_SECONDS < KEPT_SECONDS


@pytest.mark.slow
def test_a_connection_is_kept_for_longer_than_five_seconds(tmp_path: Path) -> None:
    """The server's own default is 5 s."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=60)
    with serving(tmp_path) as service, httpx.Client(trust_env=False, verify=False, limits=limits) as client:
        url = f"http://127.0.0.1:{service.port}/"
        first = client.get(url).extensions["network_stream"].get_extra_info("client_addr")
        time.sleep(6)
        assert client.get(url).extensions["network_stream"].get_extra_info("client_addr") == first


def test_who_does_not_read_the_answer_is_let_go_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client learns of it at once, not when the process ends."""
    monkeypatch.setattr(run, "_GRACE_SECONDS", 1)
    with serving(tmp_path) as service:
        client = service.connection()
        client.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1) == b"H"
    with client, suppress(ConnectionResetError):
        client.settimeout(1.0)
        while client.recv(1 << 20):
            pass
