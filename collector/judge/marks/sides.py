"""The mismatch rule: of several who did different things at one place the majority is right, and the minority is odd.

Whether it is behind or ahead does not matter. Without a majority every side is told and none is convicted. Only the
earliest disagreement counts: what follows it is noise. So it is for flight records, log lines and counts alike.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from collector.align.groups.table import Call, GroupView
from collector.align.thresholds import is_majority

What = TypeVar("What", bound=Hashable)

_MOST_DIFFERENCES = 64
"""A shift makes every later number differ; the first ones tell all there is to tell."""


@dataclass(frozen=True)
class Sides(Generic[What]):
    """Who did what."""

    all: tuple[tuple[What, tuple[int, ...]], ...]
    """What was done and by which ranks, ascending; the largest side first."""
    silent: int = 0
    """How many more there are who might have done the same as either side."""

    @property
    def decided(self) -> bool:
        """Is one side the majority, whatever the silent have done? One against one is a tie."""
        return len(self.all) > 1 and is_majority(len(self.all[0][1]), len(self.ranks) + self.silent)

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


def sides_of(opinions: Mapping[What, Collection[int]], *, silent: int = 0) -> Sides[What]:
    """Put the sides of one disagreement in order."""
    told = ((what, tuple(sorted(ranks))) for what, ranks in opinions.items())
    return Sides(tuple(sorted(told, key=lambda side: (-len(side[1]), side[1]))), silent)


def telling_difference(
    opinions: Mapping[int, Mapping[What, Collection[int]]], *, after: int = -1, silent: int = 0
) -> tuple[int, Sides[What]] | None:
    """Return the first number after `after` at which members differ; None where they do not.

    Where lines or ring buffers leave that to a few, it is the first that more members witness. A later one may decide
    what an earlier one leaves open only if it splits the members in the same way.
    """
    numbers = sorted(number for number, sides in opinions.items() if len(sides) > 1 and number > after)
    found = [(number, sides_of(opinions[number], silent=silent)) for number in numbers[:_MOST_DIFFERENCES]]
    for at, (_, sides) in enumerate(found):
        before, guilty = [earlier for _, earlier in found[:at]], {*sides.odd}
        splits_alike = all(not guilty & {*ranks} or {*ranks} <= guilty for each in before for _, ranks in each.all)
        if guilty and splits_alike and all(len(each.ranks) < len(sides.ranks) for each in before):
            return found[at]
    return found[0] if found else None


def difference_in(table: GroupView) -> tuple[int, Sides[Hashable]] | None:
    """Return where members of a group called something else, with the sides by `Call.facts`; None: nowhere."""
    opinions: dict[int, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, lane in table.lanes.items():
        for number, call in lane.calls.items():
            if call.facts is not None:
                opinions[number][call.facts].append(rank)
    return telling_difference(opinions, silent=table.silent)


def calls_of(table: GroupView, number: int, sides: Sides[Hashable]) -> list[tuple[Call, tuple[int, ...]]]:
    """Return one call of each side, as its first rank tells it."""
    return [(call, ranks) for _, ranks in sides.all if (call := table.call(ranks[0], number)) is not None]
