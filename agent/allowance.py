"""How much one answer may hold: what jobs write, name and open is theirs to choose, our memory is bounded."""

import threading
from collections.abc import Iterable

from pydantic import BaseModel

from agent.errors import Unavailable
from shared.missing import Reason

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, as JSON. Eight ranks with full records of 2,000 operations need 4 MiB; a collector reads up to 64."""


class Allowance:
    """What may still go into one answer. Safe from many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Take in so many bytes more; 0 asks whether there is any room. Raises Unavailable, and takes nothing then."""
        with self._lock:
            if size > self._left or self._left == 0:
                told = f"the answer would be larger than {self._most_bytes} bytes"
                raise Unavailable(Reason.REFUSED, f"{told}; ask about fewer ranks, or not for `full`")
            self._left -= size


def size_of(values: Iterable[object]) -> int:
    """Return how many bytes of JSON these values come to."""
    return sum(_size_of(value) for value in values)


def _size_of(value: object) -> int:
    if isinstance(value, BaseModel):
        return len(value.model_dump_json())
    return size_of(value) if isinstance(value, tuple) else 0
