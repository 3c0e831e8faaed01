"""A registration answered in front of the API is the one that the API's route would have given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector import renewals
from collector.app import create_app, get_service
from collector.settings import CollectorSettings
from collector.watcher import digest_seconds_of
from tests.build.agents.fake_agents import mounts, two_nodes

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
        {"agents": "node[1-2]", "store": folder / "store.sqlite3", "registration_seconds": 60.0, **more}
    )
    app = create_app(settings, mounts=mounts(*two_nodes()))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        client.service = get_service(app)  # type: ignore[attr-defined]
        yield client


def count_routed(patch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the path of each request that was left to the route."""
    left: list[str] = []
    original = renewals._again

    def noting(first: Any, receive: Any) -> Any:
        left.append("routed")
        return original(first, receive)

    patch.setattr(renewals, "_again", noting)
    return left


async def test_only_the_first_registration_takes_the_way_through_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = count_routed(monkeypatch)
    async with collector(tmp_path) as client:
        body = {"url": URL, "digest": {"jobs": [JOB]}}
        first, *others = [await client.put("/v1/agents/node7", json=body) for _ in range(3)]
        assert left == ["routed"]
        assert first.status_code == 200 and first.json()["url"] == URL
        assert {other.content for other in others} == {first.content}
        assert {other.headers["content-type"] for other in others} == {first.headers["content-type"]}
        moved = await client.put("/v1/agents/node7", json={"url": "http://10.1.2.4:8471"})
        assert len(left) == 2 and moved.json()["url"] == "http://10.1.2.4:8471"


async def test_what_a_renewal_tells_of_its_ranks_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = count_routed(monkeypatch)
    async with collector(tmp_path) as client:
        for sequence in (7, 8):
            digest = {"jobs": [{**JOB, "sequence": [sequence, -1]}]}
            await client.put("/v1/agents/node7", json={"url": URL, "digest": digest})
        watch = client.service.watcher.detector.find("j")  # type: ignore[attr-defined]
        assert watch is not None and watch.view.ranks[0].sequence == 8
        assert len(left) == 1


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
)


@pytest.mark.parametrize("body", WRONG)
async def test_what_is_wrong_is_said_as_if_there_were_no_short_way(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collector(tmp_path) as client:
        await client.put("/v1/agents/node7", json={"url": URL})
        quick = await client.put("/v1/agents/node7", content=body, headers=HEADERS)
        monkeypatch.setattr(renewals, "_PATH", "/nowhere/")
        slow = await client.put("/v1/agents/node7", content=body, headers=HEADERS)
        assert (quick.status_code, quick.content) == (slow.status_code, slow.content)
        assert quick.status_code >= 400


async def test_who_may_not_register_may_not_renew(tmp_path: Path) -> None:
    """Not without a token, nor with one that may read, or that is for the jobs of some users."""
    tokens, own = tmp_path / "tokens", tmp_path / "registration"
    tokens.write_text("whole-token-1234567890\nreader-token-123456789 may=read\nbound-token-1234567890 users=1000\n")
    own.write_text("whole-token-1234567890\nreader-token-123456789\nbound-token-1234567890\n")
    tokens.chmod(0o600)
    own.chmod(0o600)
    async with collector(tmp_path, token_file=tokens, registration_token_file=own) as client:

        async def put(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return (await client.put("/v1/agents/node7", json={"url": URL}, headers=headers)).status_code

        assert [await put("whole-token-1234567890") for _ in range(2)] == [200, 200]
        assert await put("reader-token-123456789") == 403
        assert await put("bound-token-1234567890") == 403
        assert await put("") == 401
        own.write_text("another-token-123456789\n")
        assert await put("whole-token-1234567890") == 401


def test_the_more_agents_the_more_rarely_each_tells() -> None:
    """As long as a digest is never as old as what makes a node silent."""
    assert [digest_seconds_of(count) for count in (0, 2048, 3072, 4096, 100_000)] == [30.0, 30.0, 45.0, 60.0, 60.0]
