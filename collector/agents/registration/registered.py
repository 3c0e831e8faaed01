"""Agents that register themselves. One that stops registering is lost, and remembered: that is evidence.

1. What is received here is known at once, and takes precedence over what others received (`registered_store.py`).
2. Silence counts from the last registration. For an agent that registers only with other collectors it counts up to the
   last exchange with them: while the store fails, no agent is lost because of that.
3. For one lease after a start no agent is lost: until then there may have been no collector to register with.
4. One address may register so many agents, one token more, and all together more again. Before a new one is refused,
   the one is forgotten that has been lost for longest, of those that count for what is full.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from collector.agents.agent_source import Sighting, place_of
from collector.hostlists import AgentAddress
from collector.keep.registrations import MOST_AGENTS, REMEMBERED_SECONDS, RegisteredAgent, Renewal
from shared.errors import NotPermitted
from shared.missing import Missing, Reason

SOURCE = "registered"

ASKED_SECONDS = 3600.0
"""How long a lost agent is still asked: its silence is reported with the ranks that it had."""

MOST_LEASES, MOST_OF_TOKEN, MOST_OF_CLIENT = 32_768, 16_384, 2_048
"""A thousand agents may be behind one address."""
assert MOST_LEASES <= MOST_AGENTS

_Place = tuple[str, str]


class Registrant(NamedTuple):
    """Who registers: a client as connections are counted, and the beginning of its token's hash."""

    client: str = ""
    token: str = ""


@dataclass(frozen=True)
class _Held:
    """An agent that has registered here."""

    sighting: Sighting
    renewed: float
    renewed_at: float
    by: Registrant
    rival: AgentAddress | None = None
    rival_seen: float = 0.0
    """Another agent of that name, which it replaced while the other's lease was still valid."""


@dataclass(frozen=True)
class _Stored:
    """An agent that has registered at some collector, according to the store."""

    sighting: Sighting
    renewed: float
    renewed_at: float
    heard_ms: int


class Leases:
    """Which agents have registered, and until when. Nothing here waits."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.seconds = seconds
        self.trouble: Missing | None = None
        """Why registrations at other collectors are not known."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._began = self._stored_until = clock()
        self._held: dict[_Place, _Held] = {}
        self._stored: dict[_Place, _Stored] = {}
        self._unwritten: set[_Place] = set()
        self._counts: Counter[tuple[str, str]] = Counter()
        """How many are held of each address and each token."""

    def renew(self, address: AgentAddress, *, by: Registrant | None = None) -> None:
        """Register an agent, identified by its node's name and its port. Raises NotPermitted when full."""
        now, by = self._clock(), by or Registrant()
        place = place_of(address)
        before = self._held.get(place)
        if before is None:
            self._make_room(by, now)
            self._counts.update(_shares(by))
        else:
            by = before.by
        sighting = Sighting(address, SOURCE)
        if before is not None and before.sighting.address == address:
            sighting = before.sighting  # the same object, by which it is cheap to see that nothing has changed
        rival, rival_seen = self._rival(before, address, now)
        self._held[place] = _Held(sighting, now, self._wall_clock(), by, rival, rival_seen)
        self._unwritten.add(place)

    def holds(self, address: AgentAddress) -> bool:
        """Did this agent last register here with this URL, and is that registration still valid?"""
        held = self._held.get(place_of(address))
        return held is not None and held.sighting.address == address and self._clock() - held.renewed <= self.seconds

    def take_unwritten(self) -> tuple[Renewal, ...]:
        """Return those who have registered here since the last call, for the store; what it refuses is `put_back`."""
        now = self._clock()
        taken, self._unwritten = self._unwritten, set()
        held = [(place, self._held[place]) for place in taken if place in self._held]
        return tuple(Renewal(each.sighting.address, place, now - each.renewed) for place, each in held)

    def put_back(self, renewals: Iterable[Renewal]) -> None:
        """Have these written another time."""
        self._unwritten.update(renewal.place for renewal in renewals)

    def learn(self, stored: Iterable[RegisteredAgent]) -> None:
        """Take over all that the store knows."""
        now, wall = self._clock(), self._wall_clock()
        known: dict[_Place, _Stored] = {}
        for each in stored:
            place = place_of(each.address)
            before = self._stored.get(place)
            if before is None or before.heard_ms != each.heard_ms or before.sighting.address != each.address:
                before = _Stored(
                    Sighting(each.address, SOURCE), now - each.age_seconds, wall - each.age_seconds, each.heard_ms
                )
            known[place] = before
        self._stored, self._stored_until = known, now

    @property
    def here(self) -> int:
        """How many have registered here."""
        return len(self._held)

    def live(self) -> dict[str, str]:
        """Return the URLs of those that have registered here within their lease, by their nodes' names."""
        now = self._clock()
        held = (each for each in self._held.values() if now - each.renewed <= self.seconds)
        return {each.sighting.address.host: each.sighting.address.url for each in held}

    @property
    def lost(self) -> int:
        """How many of those remembered are lost."""
        return sum(sighting.lost_at is not None for sighting in self.sightings())

    def sightings(self) -> tuple[Sighting, ...]:
        """Return all that are remembered, lost ones with the time of their last registration."""
        now = self._clock()
        self._forget(now)
        places = dict.fromkeys(chain(self._held, self._stored))
        return tuple(self._sighting(self._held.get(place), self._stored.get(place), now) for place in places)

    def conflicts(self) -> tuple[Missing, ...]:
        """Return the names that two agents claim at once."""
        now = self._clock()
        return tuple(
            Missing(source=SOURCE, reason=Reason.UNREADABLE, detail=_two(held.sighting.address, held.rival))
            for held in self._held.values()
            if held.rival is not None and now - held.renewed <= self.seconds
        )

    def _rival(self, before: _Held | None, address: AgentAddress, now: float) -> tuple[AgentAddress | None, float]:
        """Return who else had the name within the last lease, and when. One that has moved for good is forgotten."""
        if before is None or now - before.renewed > self.seconds:
            return None, 0.0
        if before.sighting.address.url != address.url:
            return before.sighting.address, now
        return (before.rival, before.rival_seen) if now - before.rival_seen <= self.seconds else (None, 0.0)

    def _sighting(self, held: _Held | None, stored: _Stored | None, now: float) -> Sighting:
        if held is not None and (
            now - held.renewed <= self.seconds or stored is None or stored.renewed <= held.renewed
        ):
            return self._by_age(held, now - held.renewed)
        assert stored is not None
        if now - self._began <= self.seconds:
            return stored.sighting
        return self._by_age(stored, min(now, self._stored_until) - stored.renewed)

    def _by_age(self, known: _Held | _Stored, age: float) -> Sighting:
        if age <= self.seconds:
            return known.sighting
        return replace(known.sighting, lost_at=known.renewed_at, asked=age <= ASKED_SECONDS)

    def _forget(self, now: float) -> None:
        for place in [place for place, held in self._held.items() if now - held.renewed > REMEMBERED_SECONDS]:
            self._drop(place)

    def _drop(self, place: _Place) -> None:
        self._counts.subtract(_shares(self._held.pop(place).by))
        self._counts += Counter()  # without those of whom none is left

    def _make_room(self, by: Registrant, now: float) -> None:
        """Step 4."""
        for share, most in zip(_shares(by), (MOST_OF_CLIENT, MOST_OF_TOKEN, MOST_LEASES), strict=True):
            if self._counts[share] < most:
                continue
            lost = ((each.renewed, place) for place, each in self._held.items() if share in _shares(each.by))
            renewed, place = min(lost)
            if now - renewed <= self.seconds:
                raise NotPermitted(f"{most} agents have registered already{_OF[share[0]]}, and none of them is lost")
            self._drop(place)


def _shares(by: Registrant) -> tuple[tuple[str, str], ...]:
    return ("client", by.client), ("token", by.token), ("all", "")


_OF = {"client": " from this address", "token": " with this token", "all": ""}


def _two(one: AgentAddress, other: AgentAddress) -> str:
    return f"two agents register as {one.host}: {one.url} and {other.url}; the last to do so is asked"
