"""The rules about who may connect to one service, and what all of its connections share."""

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.server.accepting.kept_connections import KeptConnections
from shared.server.addresses import Network
from shared.server.audit import AuditLog, Refusal, Refused
from shared.server.connection_limits import Connections
from shared.server.origins import Names
from shared.server.plain_requests import AnswerAtOnce, Pace, PlainAnswer, parse_plain
from shared.server.tls import ServerTls

MOST_HANDSHAKES = 128
"""At once. Each costs a millisecond of a core, and strangers can begin them."""

MOST_CONNECTIONS = 512


@dataclass
class ConnectionGuard:
    """The rules about who may connect to one service."""

    audit: AuditLog
    tls: ServerTls | None = None
    networks: Sequence[Network] = ()
    names: Names = field(default_factory=Names)
    connections: Connections = field(default_factory=lambda: Connections(MOST_CONNECTIONS))
    handshakes: Connections = field(default_factory=lambda: Connections(MOST_HANDSHAKES))
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Of the handshakes, for nothing else holds them."""
    at_once: AnswerAtOnce | None = None
    """Answers plain requests before any other layer; the rules here, and who may ask by which name, hold for them."""
    plain: Pace = field(default_factory=Pace)
    """At which plain requests are answered."""
    most_kept: int = 0
    """Of connections over TLS, for their next plain request."""

    def __post_init__(self) -> None:
        self.kept = KeptConnections(self.most_kept, self.plain)

    @property
    def scheme(self) -> str:
        """How the service's URL begins."""
        return "http" if self.tls is None else "https"

    def admits(self, client: str) -> bool:
        """May this address connect? Without a list all may."""
        if not self.networks:
            return True
        try:
            address = ipaddress.ip_address(client.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(plain in network for network in self.networks)

    def refuse(self, client: str, reason: Refused, detail: str = "") -> None:
        """Log a refusal."""
        self.audit.refused(Refusal(client, reason, "", detail))

    def answer_at_once(self, data: bytes, client: str) -> PlainAnswer | None:
        """Return the answer to a request that is plain; None: it is to be read as any other."""
        request = None if self.at_once is None else parse_plain(data, client)
        if request is None or self.at_once is None or self.connections.is_full(client):
            return None
        answer = self.at_once(request) if self.names.admit(request.host) else None
        if answer is None:
            return None
        self.plain.note()
        return PlainAnswer(answer, request.keeps)

    @property
    def answers_without_transport(self) -> bool:
        """May what a new connection has brought be a plain request?"""
        return self.at_once is not None and self.tls is None
