"""One list of agents from all sources: an agent that is known twice is listed once, with its sources.

1. Two sightings are of one agent if their URLs are equal, or node name and port are. The first one's URL is used, so
   the order of the sources decides.
2. The node's name is kept if one source knows it and another has only an address.
3. Where two sources give different addresses, or differ between http and https, that is reported.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pydantic import Field

from collector.agents.agent_source import MOST_SIGHTINGS, Sighting, place_of
from collector.gather.fanout.address_meanings import parse_ip
from collector.hostlists import AgentAddress, fold_addresses
from shared.missing import Missing, Reason
from shared.value import Value

_MOST_CONFLICTS = 100


class KnownAgent(Value):
    """One agent, and who knows it."""

    address: AgentAddress
    learnt_from: tuple[str, ...] = Field(description="The sources that name it, e.g. `agents`, `slurm`.")
    labels: dict[str, str] = Field(default_factory=dict)
    lost_at: float | None = Field(default=None, description="When it last registered, if its lease has run out.")
    asked: bool = Field(default=True, description="False: it is lost for so long that it is only remembered.")


class _Merging:
    """One agent, while sightings of it are added up."""

    def __init__(self, first: Sighting) -> None:
        self.address = first.address
        self.sources: dict[str, None] = {}
        self.labels: dict[str, str] = {}
        self.lost_at: float | None = None
        self.asked = False
        self.add(first)

    def add(self, seen: Sighting) -> None:
        self.sources[seen.source] = None
        self.labels = {**seen.labels, **self.labels}
        self.lost_at = seen.lost_at if self.lost_at is None else self.lost_at
        self.asked |= seen.asked

    def take_name(self, name: str) -> None:
        """Step 2."""
        if _is_address(self.address.host) and not _is_address(name):
            self.address = self.address.model_copy(update={"host": name})

    def known(self) -> KnownAgent:
        return KnownAgent(
            address=self.address,
            learnt_from=tuple(self.sources),
            labels=self.labels,
            lost_at=self.lost_at,
            asked=self.asked,
        )


Merged = tuple[tuple[KnownAgent, ...], tuple[Missing, ...]]


def merge(sightings: Iterable[Sighting]) -> Merged:
    """Return the agents in the order in which they were first named, and where the sources disagree."""
    by_url: dict[str, _Merging] = {}
    by_place: dict[tuple[str, str], _Merging] = {}
    conflicts: dict[str, Missing] = {}
    found: list[_Merging] = []
    for seen in sightings:
        place = place_of(seen.address)
        known = by_url.get(seen.address.url) or by_place.get(place)
        if known is None:
            if len(found) >= MOST_SIGHTINGS:
                conflicts.setdefault("", _too_many(seen))
                continue
            known = _Merging(seen)
            found.append(known)
        else:
            if len(conflicts) < _MOST_CONFLICTS and _disagree(known.address, seen.address):
                conflicts.setdefault(seen.address.url, _conflict(known, seen))
            known.add(seen)
            if by_place.get(place, known) is known:
                known.take_name(seen.address.host)
        by_url.setdefault(seen.address.url, known)
        by_place.setdefault(place, known)
    return _named_apart([each.known() for each in found]), tuple(conflicts.values())


def _named_apart(agents: list[KnownAgent]) -> tuple[KnownAgent, ...]:
    """Give those that share a name their ports, as host lists do; their URLs differ, so none is dropped."""
    apart: Mapping[str, AgentAddress] = {a.url: a for a in fold_addresses(agent.address for agent in agents)}
    return tuple(
        agent
        if apart[agent.address.url] is agent.address
        else agent.model_copy(update={"address": apart[agent.address.url]})
        for agent in agents
    )


def _disagree(one: AgentAddress, other: AgentAddress) -> bool:
    """A name and an address may well be the same; two addresses are not, nor are two schemes."""
    if one.url == other.url:
        return False
    first, second = urlsplit(one.url), urlsplit(other.url)
    both = _is_address(first.hostname or "") and _is_address(second.hostname or "")
    return first.scheme != second.scheme or (both and first.hostname != second.hostname)


def _is_address(host: str) -> bool:
    return (host[:1].isdigit() or ":" in host) and parse_ip(host) is not None


def _conflict(known: _Merging, seen: Sighting) -> Missing:
    sources = ", ".join(known.sources)
    detail = (
        f"{known.address.host} is at {known.address.url} by {sources} and at {seen.address.url} by {seen.source}; "
        "the first is asked"
    )
    return Missing(source=seen.source, reason=Reason.UNREADABLE, detail=detail)


def _too_many(seen: Sighting) -> Missing:
    return Missing(
        source=seen.source,
        reason=Reason.REFUSED,
        detail=f"all sources together name more than {MOST_SIGHTINGS} agents; the rest are left out",
    )
