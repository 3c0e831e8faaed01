"""How our services treat connections on which nobody asks."""

import time
from pathlib import Path

import httpx
import pytest

from collector.gather.fanout.connection_pools import IDLE_SECONDS
from shared.server.run import KEPT_SECONDS
from tests.build.services.services import serving


def test_a_client_gives_up_an_idle_connection_long_before_the_service_does() -> None:
    """Else both would at the same moment, and a question be lost on a connection that is just being closed."""
    assert 2 * IDLE_SECONDS < KEPT_SECONDS


@pytest.mark.slow
def test_a_connection_is_kept_for_longer_than_five_seconds(tmp_path: Path) -> None:
    """The server's own default is 5 s."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=60)
    with serving(tmp_path) as service, httpx.Client(trust_env=False, limits=limits) as client:
        url = f"http://127.0.0.1:{service.port}/"
        first = client.get(url).extensions["network_stream"].get_extra_info("client_addr")
        time.sleep(6)
        assert client.get(url).extensions["network_stream"].get_extra_info("client_addr") == first
