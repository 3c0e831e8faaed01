"""The mismatch rule: of several who did different things at one place the majority is right, and the minority is odd.

Whether it is behind or ahead does not matter. Without a majority every side is told and none is convicted. Only the
earliest disagreement counts: what follows it is noise.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from collector.align.marks.table import Call, MarkTable
from collector.align.thresholds import is_majority

What = TypeVar("What", bound=Hashable)


@dataclass(frozen=True)
class Sides(Generic[What]):
    """Who did what."""

    all: tuple[tuple[What, tuple[int, ...]], ...]
    """What was done and by which ranks, ascending; the largest side first."""

    @property
    def decided(self) -> bool:
        """Is one side the majority of those who have an opinion? One against one is a tie."""
        return len(self.all) > 1 and is_majority(len(self.all[0][1]), len(self.ranks))

    @property
    def odd(self) -> tuple[int, ...]:
        """The minority; empty where there is none."""
        return tuple(sorted(rank for _, ranks in self.all[1:] for rank in ranks)) if self.decided else ()

    @property
    def fewest_first(self) -> tuple[tuple[What, tuple[int, ...]], ...]:
        """The sides in the order in which they are worth a look."""
        return tuple(sorted(self.all, key=lambda side: (len(side[1]), side[1])))

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(rank for _, ranks in self.all for rank in ranks))


def sides_of(opinions: Mapping[What, Collection[int]]) -> Sides[What]:
    """Put the sides of one disagreement in order."""
    told = ((what, tuple(sorted(ranks))) for what, ranks in opinions.items())
    return Sides(tuple(sorted(told, key=lambda side: (-len(side[1]), side[1]))))


def earliest_difference(table: MarkTable) -> tuple[int, Sides[Hashable]] | None:
    """Return the first number at which members called something else, with the sides by `Call.facts`; None: none."""
    opinions: dict[int, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, mark in table.marks.items():
        for number, call in (mark.calls or {}).items():
            if call.facts is not None:
                opinions[number][call.facts].append(rank)
    first = min((number for number, sides in opinions.items() if len(sides) > 1), default=None)
    return None if first is None else (first, sides_of(opinions[first]))


def calls_of(table: MarkTable, number: int, sides: Sides[Hashable]) -> list[tuple[Call, tuple[int, ...]]]:
    """Return one call of each side, as its first rank tells it."""
    return [(call, ranks) for _, ranks in sides.all if (call := table.call(ranks[0], number)) is not None]
