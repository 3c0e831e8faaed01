"""A registration answered as it arrives gets what the API's route would have given."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.app import create_app, get_service
from collector.settings import CollectorSettings
from collector.watcher import digest_seconds_of
from shared.server.plain_requests import PlainRequest
from tests.build.agents.fake_agents import mounts, two_nodes
from tests.build.services.stores import empty_store

HEADERS = {"Content-Type": "application/json"}
URL = "http://10.1.2.3:8471"
JOB = {
    "job": "j",
    "world_size": 2,
    "ranks": [0, 1],
    "still": [0.5, 1.0],
    "idle": [0.5, None],
    "pending": [True, False],
    "group": [0, -1],
    "sequence": [7, -1],
    "groups": ["0"],
}


@asynccontextmanager
async def collector(folder: Path, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a collector that takes registrations."""
    settings = CollectorSettings.model_validate(
        {"agents": "node[1-2]", "store": empty_store(folder), "registration_seconds": 60.0, **more}
    )
    app = create_app(settings, mounts=mounts(*two_nodes()))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        client.service = get_service(app)  # type: ignore[attr-defined]
        client.renewals = app.state.renewals  # type: ignore[attr-defined]
        yield client


def put(
    client: httpx.AsyncClient, body: bytes, *, token: str | None = None, path: str = "/v1/agents/node7"
) -> bytes | None:
    """Ask for a renewal as a plain request does."""
    given = None if token is None else token.encode()
    answer = client.renewals.answer(PlainRequest("127.0.0.1", path, "collector", given, body))  # type: ignore[attr-defined]
    assert answer is None or isinstance(answer, bytes)
    return answer


async def test_a_renewal_is_answered_as_the_route_answers_it(tmp_path: Path) -> None:
    """And only a renewal: the first registration is looked into, and so is one with another URL."""
    async with collector(tmp_path) as client:
        body = json.dumps({"url": URL, "digest": {"jobs": [JOB]}}).encode()
        assert put(client, body) is None
        first = await client.put("/v1/agents/node7", content=body, headers=HEADERS)
        assert first.status_code == 200 and first.json()["url"] == URL
        assert put(client, body) == first.content
        assert put(client, b'{"url": "http://10.1.2.4:8471"}') is None
        for path in ("/v1/agents/node8", "/v1/agents/", "/v1/agents/node7/x", "/v1/jobs/node7", "/v1/agents/node[7-8]"):
            assert put(client, body, path=path) is None


async def test_what_a_renewal_tells_of_its_ranks_is_taken_in(tmp_path: Path) -> None:
    async with collector(tmp_path) as client:
        await client.put("/v1/agents/node7", json={"url": URL})
        assert put(client, json.dumps({"url": URL, "digest": {"jobs": [{**JOB, "sequence": [8, -1]}]}}).encode())
        watch = client.service.watcher.detector.find("j")  # type: ignore[attr-defined]
        assert watch is not None and watch.view.ranks[0].sequence == 8


WRONG = (
    b"",
    b"{",
    b"[]",
    b'{"port": 70000}',
    b'{"port": "8471"}',
    b'{"url": "http://10.1.2.3:8471/path"}',
    b'{"url": "http://10.1.2.3:8471", "digest": {"jobs": [{"job": "j", "ranks": [1]}]}}',
    b'{"url": "http://10.1.2.3:8471", "digest": {"jobs": [{"job": "j", "ranks": ["1"]}]}}',
    b'{"url": "http://169.254.169.254:80"}',
    b"\xff",
    b'{"url": "http://10.1.2.3:8471", "digest": {"jobs": [{"job": "\\ud800"}]}}',
)


@pytest.mark.parametrize("body", WRONG)
async def test_what_is_wrong_is_left_to_the_route_which_says_what(body: bytes, tmp_path: Path) -> None:
    async with collector(tmp_path) as client:
        await client.put("/v1/agents/node7", json={"url": URL})
        assert put(client, body) is None
        assert (await client.put("/v1/agents/node7", content=body, headers=HEADERS)).status_code >= 400


async def test_who_may_not_register_may_not_renew(tmp_path: Path) -> None:
    """Not without a token, nor with one that may read, or that is for the jobs of some users."""
    tokens, own = tmp_path / "tokens", tmp_path / "registration"
    tokens.write_text("whole-token-1234567890\nreader-token-123456789 may=read\nbound-token-1234567890 users=1000\n")
    own.write_text("whole-token-1234567890\nreader-token-123456789\nbound-token-1234567890\n")
    tokens.chmod(0o600)
    own.chmod(0o600)
    body = json.dumps({"url": URL}).encode()
    async with collector(tmp_path, token_file=tokens, registration_token_file=own) as client:

        async def routed(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return (await client.put("/v1/agents/node7", json={"url": URL}, headers=headers)).status_code

        assert await routed("whole-token-1234567890") == 200
        assert put(client, body, token="whole-token-1234567890") is not None
        for token, status in (("reader-token-123456789", 403), ("bound-token-1234567890", 403), ("other", 401)):
            assert await routed(token) == status
            assert put(client, body, token=token) is None
        assert put(client, body) is None
        own.write_text("another-token-123456789\n")
        assert put(client, body, token="whole-token-1234567890") is None
        tokens.unlink()
        assert put(client, body, token="whole-token-1234567890") is None


def test_the_more_agents_the_more_rarely_each_tells() -> None:
    """As long as a digest is never as old as what makes a node silent."""
    assert [digest_seconds_of(count) for count in (0, 2048, 3072, 4096, 100_000)] == [30.0, 30.0, 45.0, 60.0, 60.0]
