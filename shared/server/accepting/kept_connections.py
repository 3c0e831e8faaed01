"""Connections over TLS whose plain request was answered, kept for the next one: a handshake costs more than all else.

1. So many are kept, and of one address so many; whoever comes when there is no room shakes hands each time.
2. They hold no room of other connections, and none of them goes in favour of another.
3. The event loop watches none of them by itself, for to be woken by each costs as much as its answer: a selector of
   their own does, and is asked about all of them (`gathering.py`).
"""

import asyncio
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector

from shared.server.accepting.gathering import Gathering
from shared.server.connection_limits import Connections, Guest
from shared.server.plain_requests import Pace

MOST_KEPT, MOST_KEPT_OF_ONE = 4096, 2048
"""Of one address as many as it may register agents."""

GATHERED_SECONDS = 0.2
"""How long a request may wait for others, while many come: nobody sits before an agent that registers."""


class KeptConnections:
    """Those of one service. Used by the event loop's thread alone."""

    def __init__(self, most: int, pace: Pace) -> None:
        """`pace`: at which plain requests are answered."""
        self._held = Connections(most, most_of_one=MOST_KEPT_OF_ONE)
        self._pace = pace
        self._resting = DefaultSelector()
        self._gathering: Gathering | None = None

    def enter(self, address: str, transport: asyncio.Transport) -> "KeptConnection | None":
        """Keep one from this address, by what lies below its TLS. None where there is no room."""
        guest = self._held.enter(address, transport.abort) if self._held.has_room(address) else None
        return None if guest is None else KeptConnection(self, guest, transport)

    def watch(self, descriptor: int, transport: asyncio.Transport) -> None:
        """Read from one when it brings something."""
        if self._gathering is None:
            self._gathering = Gathering(self._resting, self._wake)
            self._gathering.start()
        self._resting.register(descriptor, EVENT_READ, transport)

    def forget(self, descriptor: int) -> None:
        """Look no more at one that is gone, or awake."""
        with suppress(KeyError):
            self._resting.unregister(descriptor)

    def _wake(self) -> float | None:
        for key, _ in self._resting.select(0):
            self._resting.unregister(key.fd)
            key.data.resume_reading()
        return GATHERED_SECONDS if self._pace.is_high() else None


class KeptConnection:
    """One that is kept, until it leaves."""

    def __init__(self, kept_by: KeptConnections, guest: Guest, transport: asyncio.Transport) -> None:
        self._kept_by = kept_by
        self._guest = guest
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()

    def rest(self) -> None:
        """Wait for the next request, after the answer to one."""
        self._transport.pause_reading()
        self._kept_by.watch(self._descriptor, self._transport)

    def leave(self) -> None:
        """Wait for nothing any more. May be called twice."""
        self._guest.leave()
        self._kept_by.forget(self._descriptor)
