"""How many connections a service holds, and which one has to go when there is no room for another.

1. A client may hold `most_of_one`. For one more, its connection that has been idle for longest is closed.
2. All clients together may hold `most`. For one more, an idle connection of the client that holds most is closed. So a
   client that fills the service loses its own connections, and others get in, also from behind the same address: they
   send their request at once, and are not the oldest idle connection.
3. A connection is idle if its request has not arrived completely; next in line are those that were answered and are
   kept open, or do not read their answer. A connection whose request is being answered is never closed.
4. Requests that are being answered are counted by token, or by client where no token is asked for: one may have a
   quarter of `most`, all together seven eighths. The last eighth is for those who register, whose answers are short.
5. If none is idle, a few more connections are accepted. They are answered 503, except on `/healthz`.
"""

import ipaddress
import logging
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache

from shared.errors import TooBusy

RESERVED = 16
"""Connections beyond `most`, for rule 5."""

_DESCRIPTORS = 16_384
_LEAST = 8

_log = logging.getLogger(__name__)


class _State(Enum):
    SILENT = auto()
    """No request has come completely."""
    BUSY = auto()
    RESTING = auto()
    """A request was answered, and the next has not arrived completely; or the answer is not being read."""


@dataclass(eq=False)
class _Client:
    """The connections of one client by state, in each the one first that has been in it for longest."""

    held: dict[_State, dict["Guest", None]] = field(default_factory=lambda: {state: {} for state in _State})

    @property
    def size(self) -> int:
        return sum(map(len, self.held.values()))

    def most_idle(self) -> "Guest | None":
        waiting = self.held[_State.SILENT] or self.held[_State.RESTING]
        return next(iter(waiting), None)


class Guest:
    """One connection, until it leaves."""

    def __init__(self, held_by: "Connections", client: str, drop: Callable[[], None]) -> None:
        self.client = client
        self.drop = drop
        self.state = _State.SILENT
        self._held_by = held_by

    def note(self, *, busy: bool) -> None:
        """Say whether a request is being answered now."""
        if busy:
            self._held_by.move(self, _State.BUSY)
        elif self.state is _State.BUSY:
            self._held_by.move(self, _State.RESTING)

    def leave(self) -> None:
        """Make room. May be called twice."""
        self._held_by.forget(self)


class Connections:
    """The connections of one service. Used by the event loop's thread alone."""

    def __init__(self, most: int, *, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._clients: dict[str, _Client] = {}
        self._size = self._busy = 0

    def __len__(self) -> int:
        return self._size

    def enter(self, address: str, drop: Callable[[], None]) -> Guest | None:
        """Take a connection in, and drop another one where there is no room. None where it cannot be taken in.

        `drop` is called when this one has to go.
        """
        key = client_of(address)
        client = self._clients.setdefault(key, _Client())
        if client.size >= self._most_of_one:
            self._drop(client.most_idle())
        if self._size >= self._most:
            self._drop(self._first_to_go())
        guest = None
        if self._size < self._most + RESERVED:
            guest = Guest(self, key, drop)
            client = self._clients.setdefault(key, client)  # it may have lost its only connection
            client.held[_State.SILENT][guest] = None
            self._size += 1
        elif not client.size:
            del self._clients[key]
        return guest

    def has_room(self, address: str) -> bool:
        """May a connection from there enter without another having to go?"""
        client = self._clients.get(client_of(address))
        return self._size < self._most and (client is None or client.size < self._most_of_one)

    def is_full(self, address: str) -> bool:
        """Is more being answered already than there is room for, this request included?"""
        client = self._clients.get(client_of(address))
        of_this = 0 if client is None else len(client.held[_State.BUSY])
        return self._busy > self._most or of_this > self._most_of_one

    def move(self, guest: Guest, state: _State) -> None:
        """Note what a connection does now."""
        client = self._clients.get(guest.client)
        if guest.state is state or client is None or guest not in client.held[guest.state]:
            return
        del client.held[guest.state][guest]
        client.held[state][guest] = None
        self._busy += (state is _State.BUSY) - (guest.state is _State.BUSY)
        guest.state = state

    def forget(self, guest: Guest) -> None:
        """Note that a connection is gone."""
        client = self._clients.get(guest.client)
        if client is None or guest not in client.held[guest.state]:
            return
        del client.held[guest.state][guest]
        self._size -= 1
        self._busy -= guest.state is _State.BUSY
        if not client.size:
            del self._clients[guest.client]

    def _first_to_go(self) -> Guest | None:
        """Rule 2. Among clients that hold equally many, the first to come."""
        with_idle = (client for client in self._clients.values() if client.most_idle() is not None)
        largest = max(with_idle, key=lambda client: client.size, default=None)
        return None if largest is None else largest.most_idle()

    def _drop(self, guest: Guest | None) -> None:
        if guest is not None:
            self.forget(guest)
            guest.drop()


class Answering:
    """How many requests are being answered, and whose (rule 4): streams and long waits are answered for minutes."""

    def __init__(self, most: int) -> None:
        self.most_of_one = max(_LEAST, most // 4)
        self._most = most - most // 8
        self._of: Counter[str] = Counter()

    @contextmanager
    def one_more(self, whose: str, *, is_first: bool = False) -> Iterator[None]:
        """Count a request while it is answered; `is_first`: it comes before others. Raises TooBusy."""
        if not is_first and self._of[whose] >= self.most_of_one:
            raise TooBusy(
                f"{self.most_of_one} requests with this token, or from this client, are in progress",
                advice="close event streams and long waits that nobody reads",
            )
        if not is_first and self._of.total() >= self._most:
            raise TooBusy("too many requests are in progress", advice="retry in a moment, or raise most_connections")
        self._of[whose] += 1
        try:
            yield
        finally:
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]


@lru_cache(maxsize=8192)
def client_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 network that any host with IPv6 has to itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback:
        return str(parsed)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def affordable(most: int) -> int:
    """Return how many of `most` connections this process has descriptors for, after it has got itself what it may.

    Without a descriptor for the next connection, asyncio accepts none for a second, and some may wait for long.
    """
    descriptors = _most_descriptors()
    room = max(_LEAST, descriptors // 2)
    if room < most:
        _log.warning(
            "%d connections instead of %d: the limit of open files (RLIMIT_NOFILE) is %d", room, most, descriptors
        )
    return min(most, room)


def affordable_beside(most: int) -> int:
    """Return for how many of `most` connections beside those there are descriptors: for a quarter."""
    return min(most, _most_descriptors() // 4)


def _most_descriptors() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard))
    wanted = min(_DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return max(soft, wanted)
