"""Addresses to listen on and to ask: `HOST:PORT`, with IPv6 hosts in brackets."""

import ipaddress
import re
from typing import NamedTuple

from shared.errors import InvalidSettings, quoted

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
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


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
            f"{quoted(word)} is no network: {str(error)[-100:]}",
            advice="write addresses or networks, e.g. 10.0.0.0/8,192.168.1.5",
        ) from error
