"""What was found out once, and need not be found out again. Keys are made of what jobs choose: so they are bounded."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """At most so many values by their keys; past that all are forgotten, which costs looking again. Thread-safe."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._known: dict[Hashable, V] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._known

    def get(self, key: Hashable) -> V | None:
        """Return what is known; None: nothing."""
        return self._known.get(key)

    def put(self, key: Hashable, value: V) -> V:
        """Remember a value in the place of any other, and return it."""
        with self._lock:
            self._make_room()
            self._known[key] = value
            return value

    def once(self, key: Hashable, find: Callable[[], V]) -> V:
        """Return what is known, else what is found now: of several that look at once, the first one's."""
        with self._lock:
            if key in self._known:
                return self._known[key]
        found = find()
        with self._lock:
            self._make_room()
            return self._known.setdefault(key, found)

    def _make_room(self) -> None:
        if len(self._known) >= self._most:
            self._known.clear()
