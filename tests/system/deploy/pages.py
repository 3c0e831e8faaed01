"""The real /metrics pages of an agent and of a collector, asked through their gates."""

from pathlib import Path

import httpx
from fastapi import FastAPI

from agent.app import create_app as create_agent
from agent.settings import AgentSettings
from collector.app import create_app as create_collector
from collector.settings import CollectorSettings

_TOKEN = "a-token-of-the-tests"


async def metric_pages(folder: Path) -> dict[str, str]:
    """Return the pages by service, after each has refused one caller with a wrong token."""
    tokens = folder / "token"
    tokens.write_text(f"{_TOKEN}\n", encoding="utf-8")
    tokens.chmod(0o600)
    agent = create_agent(AgentSettings(token_file=tokens, beat_seconds=0))
    collector = create_collector(CollectorSettings(token_file=tokens, store=str(folder / "store.sqlite3")))
    return {"agent": await _page_of(agent), "collector": await _page_of(collector)}


async def _page_of(app: FastAPI) -> str:
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://here") as client,
    ):
        refused = await client.get("/metrics", headers={"Authorization": "Bearer another"})
        assert refused.status_code == httpx.codes.UNAUTHORIZED
        answer = await client.get("/metrics", headers={"Authorization": f"Bearer {_TOKEN}"})
    return answer.raise_for_status().text
