"""Agents from DNS: SRV records, or all addresses of a name, such as that of a headless service of Kubernetes."""

import asyncio
import ipaddress
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from collector.agents.agent_source import Sighting, SourceReading, address_at, parse_one
from collector.gather.failures import NoAnswer
from shared.errors import InvalidSettings, quoted
from shared.missing import Reason
from shared.server.addresses import parse_address

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver
    from dns.resolver import Answer

MOST_RECORDS = 16_384
_LONGEST_NAME = 253


class NamedAgents:
    """One name: `_unhang._tcp.example.org` is asked for SRV records, any other for its IPv4 and IPv6 addresses."""

    def __init__(self, name: str, *, agent_url: str, server: str = "", deadline_seconds: float = 5.0) -> None:
        """Raise InvalidSettings where dnspython is absent, or the name or the server's address cannot be used."""
        _require_dnspython()
        if not 0 < len(name) <= _LONGEST_NAME or not name.isascii():
            raise InvalidSettings(f"{quoted(name)} is not a DNS name")
        self.name = f"dns {name}"
        self._name = name
        self._agent_url = agent_url
        self._server = _server(server) if server else None
        self._seconds = deadline_seconds

    async def read(self) -> SourceReading:
        """Ask the name servers. Raises NoAnswer, InvalidHostlist."""
        import dns.exception

        try:
            resolver = self._resolver()
            if self._name.startswith("_"):
                return SourceReading(self._services(await self._ask(resolver, "SRV")))
            both = await asyncio.gather(self._ask(resolver, "A"), self._ask(resolver, "AAAA"))
        except (dns.exception.DNSException, OSError) as error:
            raise NoAnswer(_reason(error), f"DNS lookup failed: {quoted(str(error), most=200)}") from error
        found = [str(record.address) for answer in both for record in _records(answer)]
        if not found:
            raise NoAnswer(Reason.NOT_FOUND, "the name has no addresses")
        return SourceReading(tuple(Sighting(address_at(each, self._agent_url), self.name) for each in sorted(found)))

    def _services(self, answer: "Answer") -> tuple[Sighting, ...]:
        """Return one agent for each target and port; a target of `.` says that there is none (RFC 2782)."""
        scheme = self._agent_url.partition("://")[0]
        places = {(record.target.to_text(omit_final_dot=True), record.port) for record in _records(answer)}
        named = sorted(place for place in places if place[0] not in ("", ".") and place[1] > 0)
        return tuple(Sighting(parse_one(f"{scheme}://{host}:{port}"), self.name) for host, port in named)

    async def _ask(self, resolver: "Resolver", kind: str) -> "Answer":
        # A name that has addresses of one kind only is no error, so an empty answer raises nothing.
        return await resolver.resolve(
            self._name, kind, lifetime=self._seconds, raise_on_no_answer=kind == "SRV", search=True
        )

    def _resolver(self) -> "Resolver":
        from dns.asyncresolver import Resolver

        resolver = Resolver(configure=self._server is None)
        if self._server is not None:
            host, resolver.port = self._server
            resolver.nameservers = [host]
        return resolver


def _records(answer: "Answer") -> Iterable[Any]:
    if answer.rrset is None:
        return ()
    if len(answer.rrset) > MOST_RECORDS:
        raise NoAnswer(Reason.REFUSED, f"the name has more than {MOST_RECORDS} records")
    return answer.rrset


def _reason(error: Exception) -> Reason:
    import dns.resolver

    if isinstance(error, dns.resolver.NXDOMAIN | dns.resolver.NoAnswer | dns.resolver.NoResolverConfiguration):
        return Reason.NOT_FOUND
    return Reason.TIMED_OUT if isinstance(error, dns.exception.Timeout) else Reason.UNREACHABLE


def _require_dnspython() -> None:
    if find_spec("dns") is None:
        raise InvalidSettings("agents from DNS need dnspython", advice="install it: pip install 'unhang[discovery]'")


def _server(text: str) -> tuple[str, int]:
    host, port = parse_address(text)
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise InvalidSettings(
            f"{quoted(text)} is not the address of a name server",
            advice="write its IP address and port, e.g. 10.0.0.2:53",
        ) from error
    return host, port
