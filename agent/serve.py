"""Runs the agent as a service until a signal ends it."""

import asyncio
import gc
import os
import socket
from contextlib import nullcontext

from agent.app import create_app
from agent.registration import make_registrars
from agent.settings import AgentSettings
from shared.errors import InvalidSettings
from shared.server.addresses import Address, parse_address
from shared.server.lifecycle.service_manager import ServiceManager
from shared.server.lifecycle.stop_signals import StopSignals
from shared.server.run import Server, open_guard, service_config
from shared.server.tokens import TokenFile

_TICK_SECONDS = 0.5

_SEARCH_AFTER = (700, 10, 10)
"""Objects after which Python looks for garbage: its own numbers, for an agent is to stay small."""


def serve(settings: AgentSettings, stop: StopSignals | None = None) -> None:
    """Serve until SIGINT or SIGTERM. Raises InvalidSettings when it cannot listen, or must not.

    `stop` notes signals already; without it they are noted from here on.
    """
    with StopSignals() if stop is None else nullcontext(stop) as noting:
        manager = ServiceManager.of_process(os.environ)
        app = create_app(settings)
        guard = open_guard(settings, app.state.audit)
        make_registrars(settings)
        if settings.token_file is not None:
            TokenFile(settings.token_file, may_bind=False).tokens()
        _keep_garbage_small()
        noting.check()
        config = service_config(app, guard, manager, log_level="error")
        with _listen(parse_address(settings.listen)) as listener:
            _Server(config, guard, noting, manager).run(sockets=[listener])


def _keep_garbage_small() -> None:
    """Look for garbage as often as Python does by itself, and never among what lives as long as this process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SEARCH_AFTER)


class _Server(Server):
    """A server that wakes up twice a second, not ten times: an agent without requests should cost nothing."""

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
            advice="choose another address with --listen, or stop the process that listens there",
        ) from error
