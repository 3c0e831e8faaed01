"""No request is read further than its head before its token is known, and no body is read without a bound."""

from collections.abc import AsyncIterator

import httpx
import pytest

from collector.app import create_app
from collector.settings import CollectorSettings
from shared.server.gate import MOST_BODY_BYTES

READ: list[int] = []


async def endless(chunks: int) -> AsyncIterator[bytes]:
    """A body of `chunks` times 16 KiB that writes down how much of it was taken."""
    READ.clear()
    for _ in range(chunks):
        READ.append(16_384)
        yield b"x" * 16_384


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """A client of one collector, which asks for a token."""
    folder = tmp_path_factory.mktemp("collector")
    token = folder / "token"
    token.write_text("right\n")
    token.chmod(0o600)
    settings = CollectorSettings(agents="127.0.0.1:9", token_file=token, store=folder / "store.sqlite")
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://c") as client:
        yield client


async def test_a_stranger_is_turned_away_before_the_body_is_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/jobs/x/diagnoses", content=endless(10_000))
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert sum(READ) <= 2 * 16_384


@pytest.mark.parametrize("body", ["{", "[]", "x" * 100])
async def test_a_stranger_learns_nothing_about_its_body(client: httpx.AsyncClient, body: str) -> None:
    answer = await client.post("/v1/jobs/x/diagnoses", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 401


async def test_a_body_beyond_all_sense_is_refused_without_reading_it_all(client: httpx.AsyncClient) -> None:
    headers = {"authorization": "Bearer right"}
    answer = await client.post("/v1/jobs/x/diagnoses", content=endless(10_000), headers=headers)
    assert answer.status_code == 413
    assert sum(READ) <= 2 * MOST_BODY_BYTES
    declared = await client.post("/v1/jobs/x/diagnoses", content=b"x" * (MOST_BODY_BYTES + 1), headers=headers)
    assert declared.status_code == 413


async def test_whoever_knows_the_token_gets_through_with_a_small_body(client: httpx.AsyncClient) -> None:
    headers = {"authorization": "Bearer right"}
    answer = await client.post("/v1/jobs/x/diagnoses", json={"looks": "many"}, headers=headers)
    assert answer.status_code == 422


async def test_health_is_open(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/v1/agents")).status_code == 401
