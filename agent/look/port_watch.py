"""What an agent remembers of the node's network ports: how fast they move data, and which of their counters grow."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.sources.ports import PortReading, read_ports
from shared.wire.devices import Port, Ports

READ_SECONDS = 30.0
"""Between two readings. A counter of an adapter may be a question to its firmware, which takes a millisecond."""
_KEPT_SECONDS = 600.0
_MOST_KEPT = 64
_LEAST_APART_SECONDS = 1.0
"""Readings that are closer together tell no rate."""


@dataclass(frozen=True)
class _Reading:
    at: float
    ports: dict[str, PortReading]


class PortWatch:
    """Reads ports, and compares with what it read before. Safe from many threads."""

    def __init__(
        self,
        read: Callable[[], Sequence[PortReading]] = read_ports,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[_Reading] = deque(maxlen=_MOST_KEPT)

    def read(self) -> Ports:
        """Read them now. Raises Unavailable where there are none."""
        found = {port.name: port for port in self._read()}
        with self._lock:
            now = self._clock()
            while self._kept and self._kept[0].at < now - _KEPT_SECONDS:
                self._kept.popleft()
            oldest = self._kept[0].ports if self._kept else {}
            last = next((each for each in reversed(self._kept) if now - each.at >= _LEAST_APART_SECONDS), None)
            if last is None or last is self._kept[-1]:
                self._kept.append(_Reading(now, found))
            ports = (_told(port, oldest.get(port.name), last, now) for port in found.values())
            return Ports(ports=tuple(ports))

    @property
    def is_due(self) -> bool:
        """Is it time to read them again?"""
        with self._lock:
            return not self._kept or self._clock() - self._kept[-1].at >= READ_SECONDS


def _told(port: PortReading, first: PortReading | None, last: _Reading | None, now: float) -> Port:
    before = None if last is None else last.ports.get(port.name)
    seconds = 0.0 if last is None else now - last.at
    sent, received = (None if before is None else before.sent), (None if before is None else before.received)
    return Port(
        name=port.name,
        kind=port.kind,
        up=port.up,
        state=port.state,
        rate=port.rate,
        sent_per_second=_rate(port.sent, sent, seconds),
        received_per_second=_rate(port.received, received, seconds),
        went_down=None if first is None or port.downs is None else _growth(port.downs, first.downs),
        errors={} if first is None else _grown(port, first),
    )


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    if now is None or before is None or seconds <= 0:
        return None
    return round(_growth(now, before) / seconds, 1)


def _grown(port: PortReading, first: PortReading) -> dict[str, int]:
    grown = {name: _growth(count, first.errors.get(name)) for name, count in port.errors.items()}
    return {name: growth for name, growth in grown.items() if growth}


def _growth(now: int, before: int | None) -> int:
    """Return by how much a counter has grown: 0 where it was reset meanwhile."""
    return 0 if before is None else max(0, now - before)
