"""How a service of ours runs under uvicorn, and guards its connections: the same for agent and collector."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from shared.server.accepting.acceptor import Acceptor
from shared.server.accepting.access_settings import AccessSettings
from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.accepting.kept_connections import MOST_KEPT
from shared.server.addresses import parse_hosts, parse_networks
from shared.server.audit import AuditLog
from shared.server.connection_limits import Connections, affordable, affordable_beside
from shared.server.connections import protocol_of
from shared.server.gate import MOST_HEAD_BYTES
from shared.server.lifecycle.service_manager import ServiceManager
from shared.server.lifecycle.stop_signals import StopSignals
from shared.server.origins import Names, Origins
from shared.server.overload import Crowded
from shared.server.plain_requests import AnswerAtOnce
from shared.server.tls import TlsFiles, keep_buffers_small, server_tls
from shared.server.tokens import require_safe_binding

_GRACE_SECONDS = 5
"""For requests that wait when the service is asked to stop."""

KEPT_SECONDS = 30
"""For an unused connection. httpx clients close theirs after 5 s: if we did so at that moment, too, a request that is
already on its way would break off without an answer."""


def open_guard(settings: AccessSettings, audit: AuditLog, *, at_once: AnswerAtOnce | None = None) -> ConnectionGuard:
    """Return the rules about who may connect. Raises InvalidSettings where they cannot be used or are none.

    `at_once` answers plain requests of those who may.
    """
    clients = settings.client_names.replace(",", " ").split()
    tls = server_tls(TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file), clients)
    asks = tls is not None and tls.asks_for_certificates
    require_safe_binding(settings.listen, settings.token_file, client_certificates=asks)
    names = Names(parse_hosts(settings.allow_hosts), any_host=asks or settings.token_file is not None)
    connections = Connections(affordable(settings.most_connections), most_of_one=settings.most_connections_per_client)
    most_kept = 0 if at_once is None else affordable_beside(MOST_KEPT)
    networks = parse_networks(settings.allow_clients)
    return ConnectionGuard(audit, tls, networks, names, connections, at_once=at_once, most_kept=most_kept)


def service_config(app: FastAPI, guard: ConnectionGuard, manager: ServiceManager, **more: Any) -> uvicorn.Config:
    """Return the configuration of a service, whose event loop tells `manager` that it turns. `more` is uvicorn's."""
    if manager.sign_seconds is not None:
        more |= {"callback_notify": manager.alive, "timeout_notify": manager.sign_seconds}
    keep_buffers_small()
    config = uvicorn.Config(
        Crowded(Origins(app, names=guard.names, audit=guard.audit), guard),
        http=protocol_of(guard),
        loop="asyncio",  # our protocol does not know the transports of uvloop, which uvicorn takes if it is there
        ws="none",
        proxy_headers=False,  # X-Forwarded-For would let any local process choose the name it is logged under
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=KEPT_SECONDS,
        **more,
    )
    # What unknown clients can make uvicorn warn about is in the audit log, where it is counted.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return config


class Server(uvicorn.Server):
    """A server that ends, too, by a signal that came while the service was being started, and says when it serves."""

    def __init__(
        self,
        config: uvicorn.Config,
        guard: ConnectionGuard,
        stop: StopSignals,
        manager: ServiceManager,
        *,
        ending: threading.Event | None = None,
    ) -> None:
        """`stop` has taken note of signals since the service began; `ending` tells answers without end to end."""
        super().__init__(config)
        self._guard = guard
        self._stop = stop
        self._manager = manager
        self._ending = ending
        self._acceptors: list[Acceptor] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals from here on, and end where one has come before."""
        with super().capture_signals():
            self.should_exit = self._stop.hand_over() or self.should_exit
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and take in what comes to these sockets ourselves."""
        await super().startup([])
        if not self.started:
            return
        for each in sockets or ():
            acceptor = Acceptor(each, self._guard, self._protocol, lambda: self.server_state.default_headers)
            acceptor.start()
            self._acceptors.append(acceptor)
        self._manager.serving()

    def _protocol(self, client: str, declined: bytes) -> asyncio.Protocol:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        own = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return make(**own, client=client, declined=declined)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as asked, of which the service manager gives no alarm, and close what clients hold open beyond that."""
        self._manager.ending()
        if self._ending is not None:
            self._ending.set()
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the sockets are closed in the next turn
