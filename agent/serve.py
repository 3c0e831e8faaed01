"""Runs the agent as a service until a signal ends it."""

import uvicorn

from agent.app import create_app
from agent.settings import AgentSettings
from shared.listening import parse_address
from shared.tokens import require_safe_binding

_SECONDS_TO_FINISH = 5
_MOST_CONNECTIONS = 64


def serve(settings: AgentSettings) -> None:
    """Serve until SIGINT or SIGTERM. Raises InvalidSettings when it would be unsafe to begin."""
    require_safe_binding(settings.listen, settings.token_file)
    address = parse_address(settings.listen)
    uvicorn.run(
        create_app(settings),
        host=address.host,
        port=address.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
