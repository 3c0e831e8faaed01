"""Both services on real sockets, and raw requests to them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from agent.app import create_app as create_agent
from agent.settings import AgentSettings
from collector.app import create_app as create_collector
from collector.settings import CollectorSettings
from tests.build.services.services import Service, running

KINDS = ("agent", "collector")
GUARDED = {"agent": "/v1/ranks", "collector": "/v1/agents"}
TOKEN = "right"


def make(kind: str, folder: Path, **given: Any) -> tuple[FastAPI, AgentSettings | CollectorSettings]:
    """Return one of the two applications and its settings."""
    audit = folder / f"{kind}.jsonl"
    if kind == "agent":
        own = AgentSettings(beat_seconds=0, audit_log=audit, **given)
        return _documented(kind, create_agent(own)), own
    given = {"agents": "127.0.0.1:9", "store": str(folder / "store.sqlite3"), **given}
    settings = CollectorSettings(audit_log=audit, interval_seconds=0.01, **given)
    return _documented(kind, create_collector(settings)), settings


def _documented(kind: str, app: FastAPI) -> FastAPI:
    """Let an application show the document that the first of its kind has made: no setting changes it."""

    def openapi() -> dict[str, Any]:
        if kind not in _DOCUMENTS:
            _DOCUMENTS[kind] = type(app).openapi(app)
        return _DOCUMENTS[kind]

    app.openapi = openapi  # type: ignore[method-assign]
    return app


_DOCUMENTS: dict[str, dict[str, Any]] = {}


@contextmanager
def serve(kind: str, folder: Path, **given: Any) -> Iterator[Service]:
    """Run one of the two services."""
    app, settings = make(kind, folder, **given)
    with running(app, settings, app.state.audit) as service:
        yield service


def statuses(service: Service, said: str) -> list[int]:
    """Say this, LF for CRLF, and return the statuses of all answers until the connection is over."""
    with service.connection() as connection:
        connection.sendall(said.replace("\n", "\r\n").encode("latin-1"))
        answer = b""
        while more := connection.recv(65_536):
            answer += more
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]
