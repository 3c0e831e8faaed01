"""Whom a line means: groups as lines name them, and group ranks translated into global ones.

Lines of torch name a rank by its place in the line's group. The global rank stands in `[rankN]:`, and only for the
writer. Others are translated where the group's members are known, by a dump or by the marks of its own members' lines;
else the default group is meant, unless a known group would make it another rank: then nobody is named.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collector.align.logs.attributed_lines import Statements
from collector.align.observations import Observations
from shared.rank_sets import MOST_RANKS
from shared.wire.log_events import LogEvent


@dataclass(frozen=True, order=True)
class GroupKey:
    """A group as lines know it. `guid` is equal on all members; without it (torch 2.3, 2.4) an index stands in."""

    name: str
    description: str = ""
    told: bool = True
    """Does the line name its group at all? Older torch does not."""

    @property
    def is_default(self) -> bool:
        return self.name == "0" or self.description == "default_pg"

    def __str__(self) -> str:
        if not self.told:
            return "a group that the lines do not name" if self.name else "apparently the default group"
        return f"group {self.name} ({self.description})" if self.description else f"group {self.name}"


UNTOLD = GroupKey("", told=False)


def key_of(event: LogEvent) -> GroupKey | None:
    """Return the group that a line's `[PG …]` names, None where it has none."""
    fields = event.fields
    if "group_id" not in fields:
        return None
    name = fields.get("group") or fields["group_id"]
    description = fields.get("description", "")
    if description == "default_pg" or name == "0":
        return GroupKey("0", "default_pg")
    return GroupKey(name, "" if description == "undefined" else description)


@dataclass(frozen=True)
class Membership:
    """Global ranks by group rank, for every group that lines or dumps tell of."""

    world_size: int | None
    logged: Mapping[GroupKey, Mapping[int, int]]
    dumped: tuple[Mapping[int, int], ...]

    def is_mixed(self, key: GroupKey) -> bool:
        """Do lines of several groups carry this name, so that their numbers are not comparable?"""
        return key in self.logged and -1 in self.logged[key]

    def is_world(self, key: GroupKey) -> bool:
        """Is it the group of all ranks, as far as the lines say?"""
        return key.is_default or key == UNTOLD

    def size_of(self, key: GroupKey) -> int | None:
        """How many members the group has, where that is known."""
        return self.world_size if self.is_world(key) else None

    def named(self, key: GroupKey) -> tuple[str, str]:
        """Name and description of the group for the answer."""
        return (key.name, key.description) if key.told else ("" if key.name else "0", "")

    def translate(self, named: Iterable[int], speakers: Mapping[int, int]) -> tuple[int, ...] | None:
        """Return the global ranks of some group ranks, ascending; None where that is not clear.

        `speakers`: group rank -> global rank of those whose own lines in the same matter tell both.
        """
        possible = {tuple(sorted(ranks)) for ranks in self._readings(tuple(named), speakers)}
        return possible.pop() if len(possible) == 1 else None

    def by_place(self, named: Iterable[int], speakers: Mapping[int, int]) -> dict[int, int] | None:
        """As `translate`, each rank under its place in the group."""
        wanted = tuple(named)
        possible = set(self._readings(wanted, speakers))
        return dict(zip(wanted, possible.pop(), strict=True)) if len(possible) == 1 else None

    def _readings(self, wanted: tuple[int, ...], speakers: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
        """Yield the ranks that some places may stand for, in the order of the places."""
        for members in (*self.dumped, *(told for key, told in self.logged.items() if not self.is_mixed(key))):
            if all(rank in members for rank in wanted) and all(members.get(g) == r for g, r in speakers.items()):
                yield tuple(members[rank] for rank in wanted)
        if all(g == r for g, r in speakers.items()) and max(wanted, default=0) < (self.world_size or MOST_RANKS):
            yield wanted


def membership_of(observations: Observations, statements: Statements) -> Membership:
    """Read from dumps and from the lines' own marks who has which place in which group."""
    logged: dict[GroupKey, dict[int, int]] = defaultdict(dict)
    for rank, event in statements.all():
        key = key_of(event)
        if key is not None and rank is not None and "group_rank" in event.fields:
            known = logged[key].setdefault(int(event.fields["group_rank"]), rank)
            if known != rank:
                logged[key][-1] = rank
    dumped = tuple(dict(enumerate(group.order)) for group in observations.groups)
    return Membership(observations.roster.world_size, logged, dumped)
