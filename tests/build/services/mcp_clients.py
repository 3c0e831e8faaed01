"""The MCP SDK's own client, asking a collector over HTTP or `unhang mcp` over standard input and output."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.build.processes.commands import command, environment
from tests.build.processes.warm import script

if TYPE_CHECKING:
    from mcp.client.client import Client

MODES = ("auto", "legacy")
"""The newest version of the protocol, which has no sessions, and the ones before."""


@asynccontextmanager
async def over_http(url: str, *, token: str | None = None, mode: str = "auto") -> AsyncIterator["Client"]:
    """Ask the collector at `url`."""
    import httpx2  # these take a second, which listing the tests need not
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    _check_schemas_once()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60.0, trust_env=False, verify=url.startswith("https")) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(
    *arguments: str, env: Mapping[str, str] | None = None, mode: str = "auto", executed: bool = False
) -> AsyncIterator["Client"]:
    """Ask an `unhang mcp` with these arguments; a fork, or an interpreter of its own where `executed`."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    _check_schemas_once()
    unhang = command() if executed else [sys.executable, "-IS", "-c", script()]
    program, *rest = *unhang, "mcp", *arguments
    server = StdioServerParameters(command=program, args=rest, env=environment(env))
    async with Client(stdio_client(server), mode=mode) as client:
        yield client


@cache
def _check_schemas_once() -> None:
    """Have clients hold each tool's schema against its metaschema once, not in each session: a tenth of a second."""
    from jsonschema.validators import Draft202012Validator

    check = Draft202012Validator.check_schema
    right: set[str] = set()

    def once(schema: object) -> None:
        text = json.dumps(schema)
        if text not in right:
            check(schema)
            right.add(text)

    Draft202012Validator.check_schema = once


async def said(client: "Client", tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, which must succeed, and return its answer. The client holds it against the tool's schema."""
    called = await client.call_tool(tool, arguments)
    assert not called.is_error, called.content
    answer: dict[str, Any] = called.structured_content
    return answer


async def walked(client: "Client", tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return what is untrusted on all pages of an answer."""
    pages: list[dict[str, Any]] = []
    cursor = None
    while not pages or cursor is not None:
        answer = await said(client, tool, cursor=cursor, **arguments)
        pages.append(answer["untrusted"])
        cursor = answer["next"]
    return pages
