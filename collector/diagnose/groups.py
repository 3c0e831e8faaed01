"""Step 3 of the verdict: line up each group by (lane, sequence), never by per-process counters.

A group is known by its name and members. Where no dump names the members (Gloo writes none) they are inferred:
the default group is the world, others hold the ranks that have records under that name, and sibling groups
of one description ("tp0", "tp1") have one size and do not overlap. An inferred membership is marked as such.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.diagnose.roster import Roster
from shared.diagnosis import GroupRef
from shared.ranks import fold, unfold
from shared.trace import Group, Record, State, Trace

_NUMBERED = re.compile(r"^(?P<family>.*?)\d+$")


@dataclass(frozen=True)
class Lane:
    """One rank's collectives on one group. Sequences count from 1; 0 means that none was issued."""

    issued: int
    completed: int
    first_kept: int
    positions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    pending: tuple[int, ...] = ()


@dataclass(frozen=True)
class PendingP2P:
    """A send or receive that has not completed. `source` and `target` are global ranks; None: not known."""

    rank: int
    op: str
    source: int | None
    target: int | None
    record: Record

    @property
    def peer(self) -> int | None:
        return self.target if self.op == "send" else self.source


@dataclass(frozen=True)
class GroupView:
    """One process group across all ranks. A member without a lane is one whose progress there is not known."""

    name: str
    description: str
    members: tuple[int, ...]
    order: tuple[int, ...]
    inferred: bool
    lanes: dict[int, Lane]
    p2p: tuple[PendingP2P, ...]

    @property
    def ref(self) -> GroupRef:
        return GroupRef(name=self.name, description=self.description, ranks=fold(self.members))

    @property
    def unknown(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank not in self.lanes)

    def waiting_at(self, sequence: int) -> tuple[int, ...]:
        """Ranks that have issued `sequence` and have not completed it."""
        return tuple(rank for rank, lane in self.lanes.items() if sequence in lane.pending)

    def absent_at(self, sequence: int) -> tuple[int, ...]:
        """Ranks that have not issued `sequence`, as far as known."""
        return tuple(rank for rank, lane in self.lanes.items() if lane.issued < sequence)

    def issued_at(self, sequence: int) -> tuple[int, ...]:
        return tuple(rank for rank, lane in self.lanes.items() if lane.issued >= sequence)

    @property
    def sequences_waited_for(self) -> tuple[int, ...]:
        return tuple(sorted({sequence for lane in self.lanes.values() for sequence in lane.pending}))


_Named = tuple[str, str]


def line_up(roster: Roster) -> tuple[GroupView, ...]:
    """Return every group that any trace mentions, in the order of names."""
    traces = {rank: view.trace for rank, view in roster.ranks.items() if view.trace is not None}
    told, untold = _memberships(traces)
    named: dict[tuple[_Named, tuple[int, ...]], bool] = dict.fromkeys(told, False)
    named |= dict.fromkeys(_inferred(untold, told, traces, roster), True)
    views = [_view(name, order, inferred, traces) for (name, order), inferred in sorted(named.items(), key=_name_key)]
    return tuple(view for view in views if view.lanes)


def _name_key(item: tuple[tuple[_Named, tuple[int, ...]], bool]) -> tuple[int, str, tuple[int, ...]]:
    (name, _description), order = item[0]
    return (int(name) if name.isdigit() and len(name) < 10 else 1 << 31, name, order)


def _memberships(
    traces: dict[int, Trace],
) -> tuple[set[tuple[_Named, tuple[int, ...]]], dict[_Named, set[int]]]:
    told: set[tuple[_Named, tuple[int, ...]]] = set()
    untold: dict[_Named, set[int]] = defaultdict(set)
    for rank, trace in traces.items():
        for group in trace.groups:
            order = _order(group)
            if order:
                told.add(((group.name, group.description), order))
            else:
                untold[group.name, group.description].add(rank)
    return told, untold


def _order(group: Group) -> tuple[int, ...]:
    if group.order is not None:
        return group.order
    return unfold(group.members) if group.members else ()


def _inferred(
    untold: dict[_Named, set[int]],
    told: set[tuple[_Named, tuple[int, ...]]],
    traces: dict[int, Trace],
    roster: Roster,
) -> set[tuple[_Named, tuple[int, ...]]]:
    named = {name for name, _ in told}
    open_groups = {name: ranks for name, ranks in untold.items() if name not in named}
    sizes = _family_sizes(open_groups, told)
    inferred = set()
    for name, ranks in open_groups.items():
        if name[0] == "0" or name[1] == "default_pg":
            inferred.add((name, tuple(roster.ranks)))
        else:
            inferred.add((name, tuple(sorted(ranks | _completed_family(name, ranks, open_groups, sizes, roster)))))
    return inferred


def _family(name: _Named) -> str:
    match = _NUMBERED.match(name[1])
    return match["family"] if match else name[1]


def _family_sizes(open_groups: dict[_Named, set[int]], told: set[tuple[_Named, tuple[int, ...]]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, ranks in [*open_groups.items(), *((name, set(order)) for name, order in told)]:
        sizes[_family(name)] = max(sizes.get(_family(name), 0), len(ranks))
    return sizes


def _completed_family(
    name: _Named, ranks: set[int], groups: dict[_Named, set[int]], sizes: dict[str, int], roster: Roster
) -> set[int]:
    """Ranks that must belong here too, because siblings are larger and only so many ranks are left over."""
    family = _family(name)
    if not family:
        return set()
    taken = {rank for other, members in groups.items() if _family(other) == family for rank in members}
    free = {rank for rank in roster.ranks if rank not in taken}
    short = [other for other, members in groups.items() if _family(other) == family and len(members) < sizes[family]]
    lacking = sizes[family] - len(ranks)
    return free if short == [name] and len(free) == lacking else set()


def _view(name: _Named, order: tuple[int, ...], inferred: bool, traces: dict[int, Trace]) -> GroupView:
    lanes: dict[int, Lane] = {}
    p2p: list[PendingP2P] = []
    for rank in sorted(order):
        trace = traces.get(rank)
        if trace is None:
            continue
        indices = _indices(trace, name, order, inferred)
        lane = _lane(trace, indices)
        if lane is not None:
            lanes[rank] = lane
        p2p.extend(_pending_p2p(rank, trace, indices, order))
    return GroupView(name[0], name[1], tuple(sorted(order)), order, inferred, lanes, tuple(p2p))


def _indices(trace: Trace, name: _Named, order: tuple[int, ...], inferred: bool) -> set[int]:
    return {
        index
        for index, group in enumerate(trace.groups)
        if (group.name, group.description) == name and (inferred or _order(group) == order)
    }


def _lane(trace: Trace, indices: set[int]) -> Lane | None:
    positions: dict[int, list[int]] = defaultdict(list)
    for position, group in enumerate(trace.group):
        if group in indices and not trace.is_p2p[position] and trace.collective_seq[position] > 0:
            positions[trace.collective_seq[position]].append(position)
    marks = [mark for mark in trace.marks if mark.group in indices]
    if not positions and not (trace.active_only and marks) and (trace.truncated or trace.active_only):
        return None
    issued = max([0, *positions])
    done = [seq for seq, at in positions.items() if all(trace.state[i] == State.COMPLETED for i in at)]
    completed = max([0, *done])
    if trace.active_only:
        issued = max([issued, *(mark.issued for mark in marks if mark.issued is not None)])
        completed = max([completed, *(mark.completed for mark in marks if mark.completed is not None)])
    pending = sorted(positions.keys() - set(done))
    kept = min(positions, default=issued + 1)
    return Lane(issued, completed, kept, {seq: tuple(at) for seq, at in positions.items()}, tuple(pending))


def _pending_p2p(rank: int, trace: Trace, indices: set[int], order: tuple[int, ...]) -> Iterable[PendingP2P]:
    for position, group in enumerate(trace.group):
        if group in indices and trace.is_p2p[position] and trace.state[position] != State.COMPLETED:
            record = trace.record(position)
            signature = record.signature
            if signature.op in ("send", "recv"):
                source, target = (_global(order, peer) for peer in (signature.source, signature.target))
                yield PendingP2P(rank, signature.op, source, target, record)


def _global(order: tuple[int, ...], group_rank: int | None) -> int | None:
    """Translate a group rank, as records carry it, into the global rank."""
    return order[group_rank] if group_rank is not None and group_rank < len(order) else None
