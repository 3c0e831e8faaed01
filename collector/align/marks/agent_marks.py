"""How far the ranks of a watched job are, as their agents have told unasked: it says where a look is not needed.

Such a report counts operations and names none: it never makes a culprit of anybody, and it does not show what a rank
does. It says that a rank stands where others stand, some of whom are looked at.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class StandsAt(NamedTuple):
    """Where a rank stands, by its counters."""

    group: str
    """In which it issued last; empty: not known."""
    sequence: int
    """Of the last collective that it issued there; -1: none is known."""
    pending: bool
    """May that not be completed?"""

    @property
    def waits(self) -> bool:
        """May it be waiting in an operation that is known?"""
        return self.pending and bool(self.group) and self.sequence >= 0


@dataclass(frozen=True)
class Reported:
    """The ranks of one job at one moment, all of which stand still, or all of which go on."""

    user: str | None
    places: Mapping[int, StandsAt]
    """Of each living rank that an agent has lately told of."""
    hosts: Mapping[int, str]
    """Where each of these is, as its agent registers."""
    world_size: int
    goes_on: bool = False
    """Do all go on? Else all stand still."""
    suspects: frozenset[int] = frozenset()
    """Of which their agents tell more than that: they have logged a timeout, or something befell their node."""

    @cached_property
    def alike(self) -> Mapping[StandsAt, tuple[int, ...]]:
        """The ranks that stand at each place, ascending."""
        found: dict[StandsAt, list[int]] = defaultdict(list)
        for rank in sorted(self.places):
            found[self.places[rank]].append(rank)
        return {place: tuple(ranks) for place, ranks in found.items()}

    @property
    def untold(self) -> int:
        """Of how many ranks no agent has told lately."""
        return max(0, self.world_size - len(self.places))

    @cached_property
    def most_of_a_node(self) -> int:
        """How many ranks a node has, of those that most are on."""
        return max(Counter(self.hosts.values()).values(), default=0)

    def on_the_nodes_of(self, ranks: Iterable[int]) -> frozenset[int]:
        """Return all ranks that are on a node with one of these: a look at a node is one at all of them."""
        nodes = {self.hosts[rank] for rank in ranks if rank in self.hosts}
        return frozenset(rank for rank, host in self.hosts.items() if host in nodes)
