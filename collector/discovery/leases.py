"""Agents that register themselves. One that is heard of no more is lost, and remembered: that is evidence."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from collector.discovery.sightings import Sighting, place_of
from collector.hostlists import AgentAddress
from shared.errors import NotPermitted
from shared.missing import Missing, Reason

SOURCE = "registered"

ASKED_SECONDS = 3600.0
"""So long a lost agent is asked all the same: its silence is told with the ranks that it had."""

REMEMBERED_SECONDS = 86_400.0

MOST_LEASES = 131_072


@dataclass(frozen=True)
class _Held:
    sighting: Sighting
    renewed: float
    renewed_at: float
    rival: AgentAddress | None = None
    rival_seen: float = 0.0
    """Another agent of that name, from whom it was taken over while it was still in force."""


class Leases:
    """Who has registered, and until when that holds."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._wall_clock = wall_clock
        self._held: dict[tuple[str, str], _Held] = {}

    def renew(self, address: AgentAddress) -> None:
        """Take note of an agent, which its node's name and its port tell from others. Raises NotPermitted when full."""
        now = self._clock()
        place = place_of(address)
        before = self._held.get(place)
        if before is None and len(self._held) >= MOST_LEASES:
            self._forget(now)
            if len(self._held) >= MOST_LEASES:
                raise NotPermitted(f"{MOST_LEASES} agents have registered already")
        sighting = Sighting(address, SOURCE)
        if before is not None and before.sighting == sighting:
            sighting = before.sighting  # the same object, by which it is cheap to see that nothing has changed
        rival, rival_seen = self._rival(before, address, now)
        self._held[place] = _Held(sighting, now, self._wall_clock(), rival, rival_seen)

    @property
    def lost(self) -> int:
        """How many of those remembered are lost."""
        now = self._clock()
        return sum(now - held.renewed > self.seconds for held in self._held.values())

    def sightings(self) -> tuple[Sighting, ...]:
        """Return all that are remembered, those that are lost with the moment of their last word."""
        now = self._clock()
        self._forget(now)
        return tuple(self._sighting(held, now - held.renewed) for held in self._held.values())

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

    def _sighting(self, held: _Held, age: float) -> Sighting:
        if age <= self.seconds:
            return held.sighting
        return replace(held.sighting, lost_at=held.renewed_at, asked=age <= ASKED_SECONDS)

    def _forget(self, now: float) -> None:
        for place in [place for place, held in self._held.items() if now - held.renewed > REMEMBERED_SECONDS]:
            del self._held[place]


def _two(one: AgentAddress, other: AgentAddress) -> str:
    return f"two agents register as {one.host}: {one.url} and {other.url}; the last to do so is asked"
