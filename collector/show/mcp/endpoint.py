"""`/mcp` on the collector: each request is answered by a server of its own, which asks the REST API as its caller."""

from importlib.util import find_spec
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.concurrency.threads import run_in_thread
from collector.show.mcp.rest import Rest

PATH = "/mcp"


def is_installed() -> bool:
    """Is the package `mcp` there, an extra?"""
    return find_spec("mcp") is not None


class McpEndpoint:
    """An ASGI application for POST: streamable HTTP without sessions, so that any replica can answer any request.

    `mcp` is imported by the first request: it takes most of a second, and many collectors are never asked.
    """

    def __init__(self, api: ASGIApp) -> None:
        """`api` is the collector's application, its authorization and audit included."""
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manage, make_server = await run_in_thread(_import)
        async with _client_as_caller(self._api, scope) as client:
            manager = manage(make_server(Rest(client)), stateless=True)
            async with manager.run():  # whatever a tool still does ends with the request
                await manager.handle_request(scope, receive, send)


def _import() -> tuple[Any, Any]:
    """Import what takes long, in a thread: all other requests go on meanwhile."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from collector.show.mcp.server import make_server

    return StreamableHTTPSessionManager, make_server


def _client_as_caller(api: ASGIApp, caller: Scope) -> httpx.AsyncClient:
    """Return a client whose requests come from the caller: same address, token and certificate."""

    async def ask(scope: Scope, receive: Receive, send: Send) -> None:
        await api({**scope, "client": caller.get("client"), "state": dict(caller.get("state", {}))}, receive, send)

    headers = [(name, value) for name, value in caller["headers"] if name == b"authorization"]
    transport = httpx.ASGITransport(ask, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://collector", headers=headers, trust_env=False)
