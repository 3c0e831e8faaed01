"""Addresses to listen on and to ask: `HOST:PORT`, with IPv6 hosts in brackets."""

import ipaddress
import re
from typing import NamedTuple

from shared.errors import InvalidSettings, quoted

# node1:8471, [::1]:8471, [::1]
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,60})\]|([\w.-]{1,253}))(?::(\d{0,5}))?", re.ASCII)
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]{2,60})\]|([\w.-]{1,253})):(\d{1,5})", re.ASCII)


class Address(NamedTuple):
    """Where a service listens. `host` is a name or an address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Can only processes of this machine connect? A name other than `localhost` counts as beyond."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Can a name, or an address without brackets, mean nothing but this machine?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_authority(text: str) -> tuple[str, int | None] | None:
    """Read the host, in its one spelling, and the port of `node1:8471` or `[::1]`; None where it is neither."""
    match = _AUTHORITY.fullmatch(text)
    return None if match is None else (_spelt(match[1] or match[2]), int(match[3]) if match[3] else None)


def parse_hosts(text: str) -> frozenset[str]:
    """Read `unhang.example,10.1.2.3`, separated by commas or spaces. Raises InvalidSettings, which quotes the input."""
    return frozenset(map(_host, text.replace(",", " ").split()))


def _host(word: str) -> str:
    authority = parse_authority(f"[{word}]" if word.count(":") > 1 and not word.startswith("[") else word)
    if authority is None or authority[1] is not None:
        raise InvalidSettings(
            f"{quoted(word)} is not a host name",
            advice="write names or addresses without ports, e.g. unhang.example,10.1.2.3",
        )
    return authority[0]


def _spelt(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


def parse_address(text: str) -> Address:
    """Read `127.0.0.1:8471`, `node1:8471` or `[::1]:8471`; port 0 lets the system choose one.

    Raises InvalidSettings, which quotes the input.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        raise InvalidSettings(
            f"{quoted(text)} is not an address to listen on",
            advice="write HOST:PORT, for example 127.0.0.1:8471",
        )
    return Address(match[1] or match[2], int(match[3]))


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read `10.0.0.0/8,192.168.1.5`, separated by commas or spaces. Raises InvalidSettings, which quotes the input."""
    return tuple(_network(word) for word in text.replace(",", " ").split())


def _network(word: str) -> Network:
    try:
        return ipaddress.ip_network(word)
    except ValueError as error:
        raise InvalidSettings(
            f"{quoted(word)} is not a network: {str(error)[-100:]}",
            advice="write addresses or networks, e.g. 10.0.0.0/8,192.168.1.5",
        ) from error
