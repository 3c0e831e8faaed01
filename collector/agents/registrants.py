"""Where a registrant may direct the collector's requests: a scheme, a host and a port, but not to hosts near us.

A registrant names a URL that the collector asks from its own position in the network, which could be its loopback or a
cloud's metadata service. Such addresses are refused, also names that resolve to them, unless the registrant itself is
there. A name may resolve to another address later: the collector only ever sends GET for an agent's paths, and an
answer that is not an agent's is never shown (`failures.py`).
"""

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.requests import Request

from collector.agents.agent_source import parse_one
from collector.concurrency.threads import run_in_thread
from collector.hostlists import AgentAddress
from shared.errors import InvalidHostlist, NotPermitted, quoted
from shared.wire.registration import Registration

_LOOK_UP_SECONDS = 2.0
_ADVICE = "write http://HOST:PORT, with an address at which the collector reaches the agent"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def parse_registrant(host: str, registration: Registration, *, sender: str) -> AgentAddress:
    """Return where a registrant wants to be asked. Raises InvalidHostlist."""
    name = parse_one(host)
    if ":" in host:
        raise InvalidHostlist(f"{quoted(host)} is not a node name")
    found = parse_one(registration.url or _where_from(sender, registration))
    if urlsplit(found.url).path:
        raise InvalidHostlist(f"{quoted(found.url)} has a path; an agent registers without one", advice=_ADVICE)
    return found.model_copy(update={"host": name.host})


def sender_of(request: Request) -> str:
    """Return the address from which an agent registers; empty where it is not known."""
    return "" if request.client is None else plain_sender(request.client.host)


def plain_sender(client: str) -> str:
    """Return a client's address, of IPv4 as such."""
    return client.removeprefix("::ffff:")


async def refuse_own_places(address: AgentAddress, *, sender: str) -> None:
    """Raise NotPermitted where the URL leads to loopback or to a link's own addresses, and the sender is not there.

    A name that does not resolve within two seconds is accepted: it leads nowhere.
    """
    host = urlsplit(address.url).hostname or ""
    here = _plain(sender)
    for found in await _meant_by(host):
        if _is_near(found) and not (here is not None and (here == found or (here.is_loopback and found.is_loopback))):
            raise NotPermitted(
                f"{quoted(host)} is {found}, which is not accepted from an agent that registers from {quoted(sender)}",
                advice=_ADVICE,
            )


async def _meant_by(host: str) -> tuple[_Address, ...]:
    literal = _plain(host)
    if literal is not None:
        return (literal,)
    try:  # also 127.1, 0x7f000001 and 2130706433, which connect() takes for addresses
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            found = await run_in_thread(socket.getaddrinfo, host, None, 0, socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return ()
    addresses = (_plain(str(where[0])) for _, _, _, _, where in found)
    return tuple(each for each in addresses if each is not None)


def _is_near(address: _Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address == ipaddress.IPv4Address("255.255.255.255")
    )


def _plain(text: str) -> _Address | None:
    """Return an address; of an IPv4 address within one of IPv6, that."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _where_from(sender: str, registration: Registration) -> str:
    shown = f"[{sender}]" if ":" in sender else sender
    return f"{registration.scheme}://{shown}:{registration.port}"
