"""Where a registrant may direct the collector's requests: a scheme, a host and a port, but not to hosts near us.

A registrant names a URL that the collector asks from its own position in the network, which could be its loopback or a
cloud's metadata service. Such addresses are refused however they are written, also names that resolve to them, unless
the registrant itself is there; nobody is at a metadata service. A name may resolve to another address later: then it is
not connected to where that is a metadata service (`sockets.py`). The collector only ever sends GET for an agent's
paths, and an answer that is not an agent's is never shown (`failures.py`).
"""

import asyncio
import socket
from urllib.parse import urlsplit

from starlette.requests import Request

from collector.agents.agent_source import parse_one
from collector.concurrency.threads import run_in_thread
from collector.gather.fanout.address_meanings import IP, embedded, is_metadata, is_near, parse_ip
from collector.hostlists import AgentAddress
from shared.errors import InvalidHostlist, NotPermitted, quoted
from shared.wire.registration import Registration

_LOOK_UP_SECONDS = 2.0
_ADVICE = "write http://HOST:PORT, with an address at which the collector reaches the agent"


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
    here = parse_ip(sender)
    for found in await _meant_by(host):
        if is_metadata(found) or (is_near(found) and not _is_there(here, found)):
            raise NotPermitted(
                f"{quoted(host)} is {found}, which is not accepted from an agent that registers from {quoted(sender)}",
                advice=_ADVICE,
            )


async def _meant_by(host: str) -> tuple[IP, ...]:
    literal = parse_ip(host)
    if literal is not None:
        return (literal,)
    try:  # also 127.1, 0x7f000001 and 2130706433, which connect() takes for addresses
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            found = await run_in_thread(socket.getaddrinfo, host, None, 0, socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return ()
    addresses = (parse_ip(str(where[0])) for _, _, _, _, where in found)
    return tuple(each for each in addresses if each is not None)


def _is_there(here: IP | None, found: IP) -> bool:
    """Does the registrant come from that very address, or from the collector's own machine?"""
    if here is None:
        return False
    meant = {found, *embedded(found)}
    return here in meant or (here.is_loopback and any(each.is_loopback for each in meant))


def _where_from(sender: str, registration: Registration) -> str:
    shown = f"[{sender}]" if ":" in sender else sender
    return f"{registration.scheme}://{shown}:{registration.port}"
