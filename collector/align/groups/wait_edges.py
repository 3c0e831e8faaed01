"""Step 5 of the verdict: who waits for whom.

Edges run rank -> group -> rank and are kept that way, so that their number is linear in memberships. A rank waits
in a group for those who have not issued what it has issued, and for those who have issued it behind an operation
that holds their queue; such a rank itself waits in that older operation only. Of a rank that takes its groups down,
what others have completed is no longer unfinished: its watchdog, which would write that down, has ended. A receive
waits for its send, and a send for its receive; the two match by peer, never by sequence, which counts per rank.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from collector.align.groups.device_queues import Queue, queues_of
from collector.align.groups.signature_rules import NEEDS_ALL, OTHER_SIDE
from collector.align.groups.table import NONE, GroupView, PendingP2P
from collector.align.roster import UNKNOWN, ByRank, Roster
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.user_frames import user_call
from collector.align.wait_states import WaitState, wait_state
from shared.answer.diagnosis import Wait
from shared.isolation import costs_itself
from shared.rank_sets import fold
from shared.wire.stacks import Frame
from shared.wire.trace import Record, Signature, Trace

# destroy_process_group (torch/distributed/distributed_c10d.py:2352)
# _abort_process_group (torch/distributed/distributed_c10d.py:2390)
_TAKEN_DOWN = frozenset({"destroy_process_group", "_abort_process_group"})


@dataclass(frozen=True)
class Edge:
    """One rank waits for others, in one operation.

    Empty `holders`: everybody came and nobody finishes, or nothing tells for whom it waits.
    """

    waiter: int
    holders: tuple[int, ...]
    group: GroupView
    signature: Signature
    sequence: int | None
    """None for point-to-point operations: their numbers are not comparable between ranks."""
    is_p2p: bool = False
    call_site: Frame | None = None
    created_ns: int = 0
    queued: tuple[int, ...] = ()
    """Those of `holders` who have issued it too, and whose queue has not come to it."""
    begun: bool = True
    """Has the waiter's own queue come to it? Else the waiter is held by something older, and only will wait here."""
    to_unknown: bool = False
    """Does no dump tell which rank it waits for, as in a send to a place of a group whose members are inferred?"""

    @property
    def wait(self) -> Wait:
        site = self.call_site
        return Wait(
            rank=self.waiter,
            waits_for=fold(self.holders),
            group=self.group.ref,
            op=self.signature.op,
            sequence=self.sequence,
            call_site=None if site is None else place(site),
        )


def with_owed(activities: ByRank[Activity], edges: Iterable[Edge]) -> ByRank[Activity]:
    """Nobody is idle whose own part others await in an operation of all. Whoever hands out work may have none."""
    owing = {rank for edge in edges if edge.signature.op in NEEDS_ALL for rank in edge.holders}
    idle = [rank for rank in owing if activities[rank].may_be_idle]
    return activities.with_changed(
        {rank: replace(activities[rank], may_be_idle=False, may_pass=True, is_owed=True) for rank in idle}
    )


def age_of(edge: Edge) -> tuple[bool, int, str, int]:
    """What edges are compared by: the one that comes first has waited longest; collectives come before the others."""
    return (edge.is_p2p, edge.created_ns, edge.group.name, edge.waiter)


@costs_itself(lambda groups, roster, traces, activities: (), part="who waits for whom by records")
def find_edges(
    groups: tuple[GroupView, ...], roster: Roster, traces: dict[int, Trace], activities: dict[int, Activity]
) -> tuple[Edge, ...]:
    """Return what every rank waits for, by the recorder: its oldest unfinished operation of each group and lane."""
    queues = queues_of({rank: trace for rank, trace in traces.items() if not roster.ranks[rank].gone})
    leaving = frozenset(rank for rank, activity in activities.items() if _takes_groups_down(activity))
    seen = _Seen(queues, frozenset(_away(roster, traces, activities)), leaving, activities)
    found: list[Edge] = []
    for group in groups:
        silent = tuple(rank for rank in group.unknown if rank in seen.away)
        unseen = tuple(rank for rank in silent if roster.ranks[rank].presence in UNKNOWN)
        points: dict[int, _Point] = {}
        done = max((lane.completed for rank, lane in group.lanes.items() if rank not in seen.leaving), default=NONE)
        for rank, lane in group.lanes.items():
            pending = [at for at in lane.pending if at > done] if rank in seen.leaving else lane.pending
            if pending and rank in queues:
                sequence = pending[0]
                if sequence not in points:
                    points[sequence] = _point(group, sequence, silent, unseen, queues)
                point = points[sequence]
                if point.absent or rank not in point.queued:
                    found.append(_collective_edge(group, rank, sequence, point, seen))
        found.extend(_p2p_edges(group, seen))
    if not roster.clocks_off:
        return tuple(found)
    return tuple(replace(edge, created_ns=edge.created_ns - roster.ahead_ns(edge.waiter)) for edge in found)


class _Seen(NamedTuple):
    """What tells of ranks, beside their groups."""

    queues: dict[int, Queue]
    away: frozenset[int]
    """Those who cannot have come."""
    leaving: frozenset[int]
    """Those who take their groups down."""
    activities: dict[int, Activity]

    def site(self, rank: int, record: Record) -> Frame | None:
        """The user's line that issued it: as recorded, else where the rank stands."""
        return user_call(record.call_site) or self.activities[rank].user

    def tells(self, peer: int) -> bool:
        """Would the counterpart be on record? Not where none was read, nor where what it is stuck in is overwritten."""
        queue = self.queues.get(peer)
        return peer in self.away if queue is None else not (queue.trace.truncated and queue.unfinished[:1] == (0,))


def _takes_groups_down(activity: Activity) -> bool:
    return any(frame.function in _TAKEN_DOWN and "torch/distributed/" in frame.file for frame in activity.frames)


class _Point(NamedTuple):
    """One sequence of a group: who holds up those that have begun it."""

    absent: tuple[int, ...]
    queued: frozenset[int]
    both: tuple[int, ...]
    """Ascending. All who wait have one tuple in common: where thousands do, its identity tells them."""

    def holders_for(self, rank: int) -> tuple[int, ...]:
        """Who `rank` waits for. A rank that has not begun waits for those alone who have not even issued it."""
        return self.absent if rank in self.queued else self.both


def _point(
    group: GroupView, sequence: int, silent: tuple[int, ...], unseen: tuple[int, ...], queues: dict[int, Queue]
) -> _Point:
    """Who holds up `sequence`: of ranks that nobody could look at, `unseen`, that is said where nobody else does."""
    pending = [
        (rank, positions[0])
        for rank, lane in group.lanes.items()
        if rank in queues and sequence in lane.pending and (positions := lane.at(sequence))
    ]
    queued = frozenset(rank for rank, position in pending if queues[rank].holds_back(position))
    if len(queued) == len(pending) and all(queues[rank].older(position) is None for rank, position in pending):
        queued = frozenset()  # nobody's device has begun it, and nothing tells why: they are stuck together
    absent = {*group.absent_at(sequence), *silent}
    told = absent.difference(unseen)
    missing = tuple(sorted(told if told or queued else absent))
    return _Point(missing, queued, tuple(sorted({*missing, *queued})) if queued else missing)


def _away(roster: Roster, traces: dict[int, Trace], activities: dict[int, Activity]) -> Iterable[int]:
    """Ranks that cannot have come, whatever their records would say: gone, or stopped, or, where no record was read,
    by their stack in no communication. Of all others without a record it is not known.
    """
    for rank, view in roster.ranks.items():
        state = wait_state(view, activities.get(rank))
        if state is WaitState.GONE or (state is WaitState.ELSEWHERE and rank not in traces):
            yield rank


def _collective_edge(group: GroupView, rank: int, sequence: int, point: _Point, seen: _Seen) -> Edge:
    record = seen.queues[rank].trace.record(group.lanes[rank].at(sequence)[0])
    holders = point.holders_for(rank)
    queued = tuple(holder for holder in holders if holder in point.queued) if point.queued else ()
    begun, site = rank not in point.queued, seen.site(rank, record)
    return Edge(rank, holders, group, record.signature, sequence, False, site, record.created_ns, queued, begun)


def _p2p_edges(group: GroupView, seen: _Seen) -> list[Edge]:
    unfinished: dict[tuple[str, int | None, int | None], list[PendingP2P]] = defaultdict(list)
    oldest: dict[tuple[int, str, int | None], PendingP2P] = {}
    for operation in group.p2p:
        unfinished[operation.op, operation.source, operation.target].append(operation)
        oldest.setdefault((operation.rank, operation.op, operation.peer), operation)
    edges = [
        _p2p_edge(operation, group, unfinished[_counterpart(operation)], seen)
        for operation in oldest.values()
        if operation.rank in seen.queues
    ]
    return [edge for edge in edges if edge.begun or (edge.holders and not edge.queued)]


def _p2p_edge(operation: PendingP2P, group: GroupView, counterparts: list[PendingP2P], seen: _Seen) -> Edge:
    record, peer, queues = operation.record, operation.peer, seen.queues
    queued = bool(counterparts) and peer in queues and queues[peer].holds_back(counterparts[0].record.position)
    return Edge(
        waiter=operation.rank,
        holders=(peer,) if peer is not None and (queued or (not counterparts and seen.tells(peer))) else (),
        group=group,
        signature=record.signature,
        sequence=None,
        is_p2p=True,
        call_site=seen.site(operation.rank, record),
        created_ns=record.created_ns,
        queued=(peer,) if peer is not None and queued else (),
        begun=not queues[operation.rank].holds_back(record.position),
        to_unknown=peer is None,
    )


def _counterpart(operation: PendingP2P) -> tuple[str, int | None, int | None]:
    return (OTHER_SIDE.get(operation.op, "send"), operation.source, operation.target)
