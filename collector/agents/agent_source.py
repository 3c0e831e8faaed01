"""What a source of agents gives, and what any source must do."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import httpx

from collector.gather.fanout.dns_lookups import LookingUp
from collector.hostlists import AgentAddress, parse_hostlist
from shared.errors import InvalidHostlist, quoted
from shared.missing import Missing

MOST_SIGHTINGS = 131_072
"""Of one source, as `hostlists.MOST_AGENTS`."""

HOST = "{host}"

_LONGEST = 1000
"""Of one agent's URL, in characters."""


@dataclass(frozen=True)
class Sighting:
    """One agent, as one source knows it."""

    address: AgentAddress
    source: str
    labels: Mapping[str, str] = field(default_factory=dict)
    lost_at: float | None = None
    """Since when it has sent no registration, Unix seconds, where it used to register itself."""
    asked: bool = True
    """False: it is remembered, but has been lost for so long that asking it would only cost time."""


@dataclass(frozen=True)
class PodPlace:
    """A pod that may run ranks, according to Kubernetes."""

    uid: str
    namespace: str
    name: str
    node: str | None = None
    job: str | None = None
    phase: str = ""
    reason: str = ""
    restarts: int = 0
    containers: Mapping[str, str] = field(default_factory=dict)
    """Names by container id."""
    address: str | None = None

    @property
    def key(self) -> str:
        """What identifies it: a pod that is created again under its old name is another one."""
        return self.uid or f"{self.namespace}/{self.name}"

    @property
    def runs(self) -> bool:
        """May what is in it answer?"""
        return self.phase == "Running" and bool(self.address)


@dataclass(frozen=True)
class SourceReading:
    """All that one source gives at one moment. `missing`: what it knows to be wrong, without failing itself."""

    sightings: tuple[Sighting, ...] = ()
    missing: tuple[Missing, ...] = ()
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The nodes of each running job, by the name that agents give it."""
    pods: tuple[PodPlace, ...] = ()


class AgentSource(Protocol):
    """A place that knows agents and is asked again and again."""

    @property
    def name(self) -> str:
        """How `learnt_from` and troubles call it."""
        ...

    async def read(self) -> SourceReading:
        """Ask once. Raises an UnhangError where nothing usable comes. The caller sets a deadline."""
        ...


@runtime_checkable
class Follower(AgentSource, Protocol):
    """A source that reports changes by itself, once it has been read."""

    async def follow(self, tell: Callable[[SourceReading], None]) -> None:
        """Report each change, forever. Raises an UnhangError where that cannot go on: it is then read again."""
        ...


def parse_one(text: str) -> AgentAddress:
    """Read the name or URL of a single agent. Raises InvalidHostlist."""
    rest = text.rpartition("://")[2]
    if len(text) > _LONGEST or "[" in rest[1:]:  # a range of many would be written out before it is refused
        raise InvalidHostlist(f"{quoted(text)} is not one agent")
    found = parse_hostlist(text)
    if len(found) != 1:
        raise InvalidHostlist(f"{quoted(text)} is not one agent")
    return found[0]


def address_at(host: str, template: str, *, name: str | None = None) -> AgentAddress:
    """Return the agent at `host`, a name or an address, by the setting `agent_url`. Raises InvalidHostlist.

    `name` is what the node is called, where `host` is an address.
    """
    shown = f"[{host}]" if ":" in host else host
    found = parse_one(template.replace(HOST, shown))
    return found if name is None else found.model_copy(update={"host": parse_one(name).host})


def place_of(address: AgentAddress) -> tuple[str, str]:
    """Return host and port, and the path where agents are behind a proxy."""
    _, _, rest = address.url.partition("://")
    authority, _, path = rest.partition("/")
    port = authority.rpartition("]")[2].rpartition(":")[2] if ":" in authority.rpartition("]")[2] else ""
    return address.host, f"{port}/{path}"


_SocketOption = tuple[int, int, int]


def make_client(
    headers: dict[str, str], tls: ssl.SSLContext | None, *, socket_options: Sequence[_SocketOption] = ()
) -> httpx.AsyncClient:
    """Return a client without deadlines. A name that no server answers delays neither other names nor our shutdown."""
    direct = httpx.AsyncHTTPTransport(verify=tls or False, trust_env=False, socket_options=socket_options)
    return httpx.AsyncClient(transport=LookingUp(direct), timeout=None, trust_env=False, headers=headers)
