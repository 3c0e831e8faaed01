"""What is known by rank: asking for a rank of which nothing is known has an answer, and never fails.

Logs, RAS reports and file names speak of ranks that left no stack, no dump or no process. That nothing is known of one
is a value like any other: a verdict that forgets to ask whether it is there must not be lost for it.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

Known = TypeVar("Known")


class ByRank(dict[int, Known]):
    """Values by rank, as a `dict` holds them; of any other rank `self[rank]` is what `unknown` says."""

    def __init__(self, known: Mapping[int, Known], unknown: Callable[[int], Known]) -> None:
        super().__init__(known)
        self._unknown = unknown

    def __missing__(self, rank: int) -> Known:
        return self._unknown(rank)

    def with_changed(self, changed: Mapping[int, Known]) -> "ByRank[Known]":
        """Return these values with some in another form."""
        return ByRank({**self, **changed}, self._unknown)
