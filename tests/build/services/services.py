"""A service with our connection guard before it, on a real socket in a thread of this process."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import Body, FastAPI, Request, Response

from shared.server.accepting.access_settings import AccessSettings
from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.audit import AuditLog
from shared.server.gate import Gate, who_asks
from shared.server.lifecycle.service_manager import ServiceManager
from shared.server.lifecycle.stop_signals import StopSignals
from shared.server.problem_handlers import install_problem_handlers
from shared.server.run import Server, open_guard, service_config

Lines = list[dict[str, Any]]


class Service:
    """Where it listens, and what it has written down."""

    def __init__(self, port: int, audit: Path) -> None:
        self.port, self.audit = port, audit

    def url(self, path: str = "/") -> str:
        """Return the address of a path, by the name that its certificate has."""
        return f"https://localhost:{self.port}{path}"

    def plain_url(self, path: str = "/") -> str:
        """Return the same without TLS."""
        return f"http://localhost:{self.port}{path}"

    def lines(self, least: int = 0) -> Lines:
        """Return the lines of the audit log, once there are so many."""
        until = time.monotonic() + 60.0
        while True:
            lines = [json.loads(line) for line in self.audit.read_text("ascii").splitlines()]
            if len(lines) >= least:
                return lines
            assert time.monotonic() < until, lines
            time.sleep(0.01)

    def connection(self) -> socket.socket:
        """Connect, and say nothing."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60.0)


def write_token(folder: Path, token: str = "right") -> Path:
    """Write a file with the one token that is known, which nobody else may read."""
    file = folder / "tokens"
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return file


def make_app(settings: AccessSettings, audit: AuditLog) -> FastAPI:
    """A service that tells callers who they are."""
    app = FastAPI()
    app.add_middleware(Gate, token_file=settings.token_file, audit=audit)
    install_problem_handlers(app)

    @app.get("/")
    def who(request: Request) -> dict[str, str]:
        return who_asks(request)

    @app.get("/much")
    def much() -> Response:
        return Response(bytes(64 * 1024 * 1024))

    @app.post("/")
    def echo(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008 - FastAPI's way
        return body

    return app


@contextmanager
def serving(folder: Path, **given: Any) -> Iterator[Service]:
    """Run a service with these settings until the block ends."""
    settings = AccessSettings(listen="127.0.0.1:0", audit_log=folder / "audit.jsonl", **given)
    audit = AuditLog(settings.audit_log)
    with running(make_app(settings, audit), settings, audit) as service:
        yield service


@contextmanager
def running(app: FastAPI, settings: AccessSettings, audit: AuditLog) -> Iterator[Service]:
    """Run an application behind the connection guard that its settings make, until the block ends."""
    assert settings.audit_log is not None
    renewals = getattr(app.state, "renewals", None)
    guard = open_guard(settings, audit, at_once=None if renewals is None else renewals.answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with _running(app, guard, listener):
            yield Service(port, settings.audit_log)


@contextmanager
def _running(app: FastAPI, guard: ConnectionGuard, listener: socket.socket) -> Iterator[None]:
    manager = ServiceManager()
    server = Server(service_config(app, guard, manager, log_config=None), guard, StopSignals(), manager)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(60.0)
