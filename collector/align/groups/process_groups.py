"""Step 3 of the verdict: line up each group by (lane, sequence), never by per-process counters.

A group is known by its name and members. Where no dump names the members (Gloo writes none) they are inferred:
the default group is the world, others hold the ranks that have records under that name, and sibling groups
of one description ("tp0", "tp1") have one size and do not overlap. An inferred membership is marked as such. Where
some dumps name the members and others do not, the group is one.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from collector.align.groups.lanes import Cutter, cutters_for
from collector.align.groups.table import GroupView, Lane, PendingP2P, is_default
from collector.align.roster import Roster
from shared.formats.recorder.coalesced import COALESCED
from shared.isolation import costs_itself
from shared.rank_sets import unfold
from shared.wire.trace import Trace

_T = TypeVar("_T")

_INFERRED = -1
"""No group rank: marks a table of group ranks that holds only those whose owners are known."""
_NUMBERED = re.compile(r"^(?P<family>.*?)[\d_:.-]*\d$")
_UNDESCRIBED = ("", "undefined")


_Named = tuple[str, str]
"""(name, description)"""


@dataclass(frozen=True)
class _Told:
    """A membership as a dump tells it: compared by its text, which is short where the members are many."""

    name: _Named
    members: str
    order: tuple[int, ...] | None

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Global ranks by group rank."""
        return self.order if self.order is not None else unfold(self.members)


_Places = dict[_T, dict[int, tuple[int, ...]]]
"""Where each group stands in the group table of each rank that has it."""


@costs_itself(lambda roster: (), part="process groups by records")
def line_up(roster: Roster) -> tuple[GroupView, ...]:
    """Return every group that any trace mentions, in the order of names."""
    traces = roster.traces
    told, untold = _places(traces)
    unclear = _join(told, untold)
    inferred = _inferred(untold, told.keys(), roster)
    cutters = cutters_for(traces)
    known = roster.ranks.keys()
    views = [
        _view(one.name, one.ranks, known, _without(traces, unclear.get(one)), cutters, told[one], inferred=False)
        for one in told
    ]
    views += [
        _view(name, ranks, known, traces, cutters, untold[name], inferred=True) for name, ranks in inferred.items()
    ]
    seen = sorted((view for view in views if view.lanes or view.p2p), key=_name_key)
    return tuple(replace(view, others=_others(view, seen, known)) if view.is_guessed else view for view in seen)


def _name_key(view: GroupView) -> tuple[int, str, str, tuple[int, ...]]:
    number = int(view.name) if view.name.isdecimal() and len(view.name) < 10 else 1 << 31
    return (number, view.name, view.description, view.order)


def _places(traces: dict[int, Trace]) -> tuple[_Places[_Told], _Places[_Named]]:
    """Return where each group stands: by what is told of its members, and by name where nothing is."""
    told: _Places[_Told] = {}
    untold: _Places[_Named] = {}
    known: dict[int, dict[int, tuple[int, ...]]] = {}  # by identity: one group's value may stand in thousands of traces
    for rank, trace in traces.items():
        for index, group in enumerate(trace.groups):
            ranks = known.get(id(group))
            if ranks is None:
                name = group.name, group.description
                one = _Told(name, group.members, group.order) if group.members else None
                ranks = known[id(group)] = untold.setdefault(name, {}) if one is None else told.setdefault(one, {})
            ranks[rank] = (*ranks[rank], index) if rank in ranks else (index,)
    return told, untold


def _join(told: _Places[_Told], untold: _Places[_Named]) -> dict[_Told, set[int]]:
    """Give told groups the places of members that know only the name: these have issued what stands there.

    Returns the members of which it is not clear which of several groups of that name they mean.
    """
    by_name: dict[_Named, dict[_Told, frozenset[int]]] = defaultdict(dict)
    for one in told if untold else ():
        if one.name in untold:
            by_name[one.name][one] = frozenset(one.ranks)
    unclear: dict[_Told, set[int]] = defaultdict(set)
    for name, members in by_name.items():
        for rank, indices in untold[name].items():
            own = [one for one, ranks in members.items() if rank in ranks]
            for one in own:
                if len(own) == 1:
                    told[one][rank] = (*told[one].get(rank, ()), *indices)
                else:
                    unclear[one].add(rank)
    return unclear


def _inferred(
    untold: Mapping[_Named, Collection[int]], told: Collection[_Told], roster: Roster
) -> dict[_Named, tuple[int, ...]]:
    named = {one.name for one in told}
    open_groups = {name: set(ranks) for name, ranks in untold.items() if name not in named}
    sizes = _family_sizes(open_groups, told)
    families: dict[str, list[_Named]] = defaultdict(list)
    for name in open_groups:
        families[_family(name)].append(name)
    inferred = {name: tuple(sorted(ranks)) for name, ranks in open_groups.items()}
    for family, names in families.items():
        short = [name for name in names if len(open_groups[name]) < sizes[family]]
        if family and len(short) == 1:
            left = set(roster.ranks).difference(*(open_groups[name] for name in names))
            if len(left) == sizes[family] - len(open_groups[short[0]]):
                inferred[short[0]] = tuple(sorted(open_groups[short[0]] | left))  # siblings are larger, no others left
    return inferred | {name: tuple(roster.ranks) for name in open_groups if is_default(*name)}


def _family(name: _Named) -> str:
    match = _NUMBERED.match(name[1])
    return match["family"] if match else name[1]


def _family_sizes(open_groups: dict[_Named, set[int]], told: Collection[_Told]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    every = [*open_groups.items(), *((one.name, one.ranks) for one in told)] if open_groups else []
    for name, ranks in every:
        sizes[_family(name)] = max(sizes.get(_family(name), 0), len(ranks))
    return sizes


def _others(group: GroupView, groups: Iterable[GroupView], known: Iterable[int]) -> tuple[int, ...]:
    """Return who may be a member and has issued nothing there: whoever is in no sibling, until all have been in it.

    Siblings are told by their descriptions and sizes, or, where there are no descriptions, by being settled themselves.
    """
    if group.is_settled:
        return ()
    family = _family((group.name, group.description))
    siblings = [each for each in groups if each is not group and _family((each.name, each.description)) == family]
    alike = group.description not in _UNDESCRIBED
    apart = [each for each in siblings if each.is_settled or (alike and len(each.members) == len(group.members))]
    return tuple(sorted(set(known).difference(group.members, *(each.members for each in apart))))


def _without(traces: dict[int, Trace], ranks: Collection[int] | None) -> dict[int, Trace]:
    return {rank: trace for rank, trace in traces.items() if rank not in ranks} if ranks else traces


def _view(
    name: _Named,
    order: tuple[int, ...],
    known: Collection[int],
    traces: dict[int, Trace],
    cutters: dict[int, Cutter],
    places: Mapping[int, tuple[int, ...]],
    *,
    inferred: bool,
) -> GroupView:
    lanes: dict[int, Lane] = {}
    p2p: list[PendingP2P] = []
    by_index = dict(enumerate(order))
    if inferred and not is_default(*name):
        by_index = _own_indices({rank: traces[rank] for rank in order if rank in traces}, places)
    for rank in sorted(order):
        trace = traces.get(rank)
        if trace is None:
            continue
        cutter, indices = cutters[rank], places.get(rank, ())
        lane = cutter.lane(indices)
        if lane is not None:
            lanes[rank] = lane
        positions = [at for at in cutter.pending_p2p if trace.group[at] in indices]
        p2p.extend(_pending_p2p(rank, trace, positions, by_index, known))
    members = tuple(sorted(rank for rank in order if rank in known))
    return GroupView(*name, members, order, inferred, lanes, traces, tuple(p2p))


def _pending_p2p(
    rank: int, trace: Trace, positions: Iterable[int], by_index: Mapping[int, int], known: Collection[int]
) -> Iterable[PendingP2P]:
    for position in positions:
        record = trace.record(position)
        signature = record.signature
        if signature.op in ("send", "recv"):
            source, target = (_global(by_index, peer, known) for peer in (signature.source, signature.target))
            yield PendingP2P(rank, signature.op, source, target, record)
        elif signature.op == COALESCED and position == 0:  # the ring buffer has overwritten its parts
            yield PendingP2P(rank, COALESCED, None, None, record)


def _own_indices(traces: Mapping[int, Trace], places: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """Who has which index in a group whose members no dump names: each tells its own by what it sends and receives."""
    found = {_INFERRED: _INFERRED}
    for rank, trace in traces.items():
        mine = (at for at, p2p in enumerate(trace.is_p2p) if p2p and trace.group[at] in places.get(rank, ()))
        for signature in (trace.signatures[trace.signature[at]] for at in mine):
            own = signature.source if signature.op == "send" else signature.target if signature.op == "recv" else None
            if own is not None:
                found[own] = rank
                break
    return found


def _global(by_index: Mapping[int, int], group_rank: int | None, known: Collection[int]) -> int | None:
    """Translate a group rank, as records carry it, into the global rank; None: no rank of the job."""
    rank = None if group_rank is None else by_index.get(group_rank)
    return rank if rank in known else None


def role_of(group: GroupView, groups: tuple[GroupView, ...]) -> str:
    """Return the description without its trailing number.

    Undescribed groups play one role when they are of one size, as far as that is told, and come in the same place among
    their members' undescribed groups of that size: siblings are created in the same order everywhere.
    """
    if group.description not in _UNDESCRIBED:
        match = _NUMBERED.match(group.description)
        return match["family"] if match and match["family"] else group.description
    if group.is_guessed and any(other.is_default and other.unknown for other in groups):
        return f"group {group.name}"
    alike = [
        other.name
        for other in groups
        if other.description in _UNDESCRIBED
        and len(other.members) == len(group.members)
        and group.members[0] in other.members
    ]
    return f"{len(group.members)} ranks, {alike.index(group.name)}"


def siblings_of(group: GroupView, groups: tuple[GroupView, ...]) -> list[GroupView]:
    """Return the groups of its role and size on other ranks: they run the same program."""
    alike = [each for each in groups if len(each.order) == len(group.order) and not {*each.order} & {*group.order}]
    role = role_of(group, groups) if alike else ""
    return [each for each in alike if role_of(each, groups) == role]
