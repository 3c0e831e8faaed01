"""Runs the agent as a service until a signal ends it."""

import asyncio
import socket

import uvicorn

from agent.app import create_app
from agent.settings import AgentSettings
from shared.errors import InvalidSettings
from shared.listening import Address, parse_address
from shared.tokens import require_safe_binding

_SECONDS_TO_FINISH = 5
_MOST_CONNECTIONS = 64
_TICK_SECONDS = 0.5


def serve(settings: AgentSettings) -> None:
    """Serve until SIGINT or SIGTERM. Raises InvalidSettings when it cannot listen, or must not."""
    require_safe_binding(settings.listen, settings.token_file)
    config = uvicorn.Config(
        create_app(settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    with _listen(parse_address(settings.listen)) as listener:
        _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that wakes up twice a second, not ten times: an agent that nobody asks should cost nothing."""

    async def main_loop(self) -> None:
        """Keep the date of the answers right, and see whether it is time to end."""
        while not await self.on_tick(0):  # noqa: ASYNC110 - a signal handler sets a flag, not an event
            await asyncio.sleep(_TICK_SECONDS)


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise InvalidSettings(
            f"cannot listen on {address}: {error.strerror or error}",
            advice="choose another address with --listen, or stop whoever listens there",
        ) from error
