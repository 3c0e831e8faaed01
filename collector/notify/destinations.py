"""Where messages may go: stated hosts alone, and of these only the addresses that they may have.

A name that is allowed may not lead inside: it may resolve to public addresses, and to others only where a network is
stated. The address that was looked at is the one that is connected to, so nothing changes in between. Redirects are
never followed.
"""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpcore
import httpx

from collector.concurrency.threads import run_in_thread
from collector.gather.fanout.address_meanings import IP, embedded, is_metadata
from collector.gather.fanout.sockets import Backend
from shared.errors import InvalidSettings, quoted
from shared.server.addresses import Network, is_loopback

_CONNECT_SECONDS = 5.0
"""For each address of a host: the attempt as a whole has a deadline of its own."""


@dataclass(frozen=True)
class Destinations:
    """The hosts and networks that a notify file states."""

    hosts: frozenset[str]
    networks: tuple[Network, ...] = ()

    def refused(self, host: str, address: str) -> str:
        """Return why a host may not be reached at an address, `""` where it may."""
        written = ipaddress.ip_address(address.partition("%")[0])
        meant = embedded(written) or (written,)
        if address == host or (is_loopback(host) and all(each.is_loopback for each in meant)):
            return ""  # the address itself is what was stated
        if all(self._may_reach(each) for each in meant):
            return ""
        return f"it resolves to {address}, which is not public and in none of allow_networks"

    def _may_reach(self, address: IP) -> bool:
        is_public = address.is_global and not address.is_multicast and not is_metadata(address)
        return is_public or any(address in network for network in self.networks)


def parse_receiver_url(url: str, destinations: Destinations, *, needs_tls: bool) -> httpx.URL:
    """Return a URL that may be sent to. Raises InvalidSettings, which names its host alone: the rest may be secret."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidSettings("its URL is not one", advice="write https://HOST/PATH") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.fragment:
        raise InvalidSettings("its URL is not that of a receiver", advice="write https://HOST/PATH, without a user")
    if parsed.host not in destinations.hosts:
        raise InvalidSettings(
            f"the host {quoted(parsed.host)} is not allowed", advice="state it in allow_hosts of the notify file"
        )
    if needs_tls and parsed.scheme != "https" and not is_loopback(parsed.host):
        raise InvalidSettings(
            f"the secret would go to {quoted(parsed.host)} in the clear", advice="use https://, or a loopback address"
        )
    return parsed


def make_receiver_client(destinations: Destinations, ca_file: Path | None = None) -> httpx.AsyncHTTPTransport:
    """Return what sends, and only to these destinations. Raises InvalidSettings where the authorities cannot be used.

    It is httpx's transport alone: a client of httpx logs each URL, and Slack's are secret.
    """
    try:
        trusted = httpx.create_ssl_context(trust_env=False) if ca_file is None else _trusting(ca_file)
    except OSError as error:
        raise InvalidSettings(
            f"the authorities in {ca_file} cannot be used: {error.strerror}",
            advice="name a PEM file of CA certificates",
        ) from error
    return _Guarded(trusted, destinations)


def _trusting(ca_file: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


class _Guarded(httpx.AsyncHTTPTransport):
    """httpx's transport with connections of our own, of which none is kept."""

    def __init__(self, trusted: ssl.SSLContext, destinations: Destinations) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted, max_keepalive_connections=0, network_backend=_GuardedBackend(destinations)
        )


class _GuardedBackend(Backend):
    """Looks a name up, looks at its addresses, and connects to one of them."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations

    async def connected(self, host: str, port: int) -> socket.socket:
        """Return a connected socket. Raises httpcore.ConnectError, also where no address is allowed."""
        if host not in self._destinations.hosts:
            raise httpcore.ConnectError(f"the host {quoted(host)} is not allowed")
        last: Exception = httpcore.ConnectError("it has no address")
        for address in await _addresses(host, port):
            if why := self._destinations.refused(host, address):
                last = httpcore.ConnectError(why)
                continue
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await super().connected(address, port)
            except (OSError, TimeoutError) as error:
                last = error
        raise last


async def _addresses(host: str, port: int) -> list[str]:
    try:
        async with asyncio.timeout(10.0):
            found = await run_in_thread(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        raise httpcore.ConnectError(
            f"its name does not resolve: {getattr(error, 'strerror', '') or 'no answer'}"
        ) from error
    return list(dict.fromkeys(str(where[0]) for _, _, _, _, where in found))
