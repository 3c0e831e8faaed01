"""MCP on standard input and output. On one box, collector and agent of this machine live in this process."""

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from cli.sources.helpers import run_with_helpers
from cli.sources.remote import client_options
from collector.concurrency.threads import run_in_thread
from collector.show.mcp.rest import Rest
from shared.server.tls import TlsFiles

_AGENT = "http://localhost"
_STDIN, _STDOUT = 0, 1

_MOST_LINE = 1_048_576
"""Bytes of one message; a client's are some hundred."""


def serve_collector(url: str, token_file: Path | None, tls: TlsFiles) -> None:
    """Serve the tools of the collector there until the client is gone. Raises InvalidSettings."""
    options = client_options(url, token_file, tls)

    async def run() -> None:
        async with httpx.AsyncClient(**options) as client:
            await _serve(Rest(client))

    asyncio.run(run())


def serve_one_box() -> None:
    """Serve the tools of this machine until the client is gone. Its diagnoses are kept until then."""

    async def run() -> None:
        async with _own_collector(Path(folder, "store.sqlite3")) as client:
            await _serve(Rest(client))

    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        run_with_helpers(run)


@asynccontextmanager
async def _own_collector(store: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a collector in this process, whose one agent is this machine's. No socket is opened."""
    from cli.sources.one_box import local_agent  # whoever serves another collector's tools needs none of these
    from collector.app import create_app
    from collector.settings import CollectorSettings

    # Not from the environment: what is set there is meant for the service.
    settings = CollectorSettings.model_construct(agents=_AGENT, store=str(store))
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(local_agent())
        app = create_app(settings, mounts={_AGENT: agent})
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://collector"))


async def _serve(rest: Rest) -> None:
    from mcp.server.stdio import stdio_server

    from collector.show.mcp.server import make_server

    logging.getLogger("mcp").setLevel(logging.ERROR)
    server = make_server(rest)
    given: Any = (_Input(), _Output())
    try:
        async with stdio_server(*given) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* OSError:  # the client is gone
        pass


class _Input:
    """Lines of standard input, read in threads that do not delay the end of the program, as the SDK's own would."""

    def __init__(self) -> None:
        self._early = b""

    def __aiter__(self) -> "_Input":
        return self

    async def __anext__(self) -> str:
        while b"\n" not in self._early and len(self._early) < _MOST_LINE:
            more = await run_in_thread(os.read, _STDIN, 65_536)
            if not more:
                raise StopAsyncIteration
            self._early += more
        line, _, self._early = self._early.partition(b"\n")
        return line.decode("utf-8", "replace")


class _Output:
    """Standard output, written in threads for the same reason."""

    async def write(self, text: str) -> None:
        """Write it whole. Raises OSError where the client is gone."""
        await run_in_thread(_write, text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Nothing is left to write."""


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_STDOUT, data) :]
