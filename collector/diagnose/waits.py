"""Step 5 of the verdict: who waits for whom.

Edges run rank -> group -> rank and are kept that way, so that their number is linear in memberships. A rank waits
in a group for those who have not issued what it has issued. A receive waits for its send, and a send for its
receive; the two match by peer, never by sequence, which counts per rank.
"""

from collections import defaultdict
from dataclasses import dataclass

from collector.diagnose.activity import Activity, place
from collector.diagnose.groups import GroupView, PendingP2P
from collector.diagnose.roster import Presence, Roster
from shared.diagnosis import Wait
from shared.ranks import fold
from shared.stacks import Frame
from shared.trace import Signature, Trace


@dataclass(frozen=True)
class Edge:
    """One rank waits for others, in one operation. Empty `holders`: everybody came and nobody finishes."""

    waiter: int
    holders: tuple[int, ...]
    group: GroupView
    signature: Signature
    sequence: int | None
    """None for point-to-point operations: their numbers are not comparable between ranks."""
    is_p2p: bool
    call_site: Frame | None
    created_ns: int

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


def find_edges(
    groups: tuple[GroupView, ...], roster: Roster, traces: dict[int, Trace], activities: dict[int, Activity]
) -> tuple[Edge, ...]:
    """Return what every rank waits for, by the recorder: its oldest unfinished operation of each group and lane."""
    found: list[Edge] = []
    for group in groups:
        silent = _silent_holders(group, roster, activities)
        holders: dict[int, tuple[int, ...]] = {}
        for rank, lane in group.lanes.items():
            if lane.pending and not roster.ranks[rank].gone:
                oldest = lane.pending[0]
                if oldest not in holders:
                    holders[oldest] = tuple(sorted({*group.absent_at(oldest), *silent}))
                found.append(_collective_edge(group, rank, oldest, traces[rank], holders[oldest], activities))
        found.extend(_p2p_edges(group, activities))
    return tuple(found)


def _silent_holders(group: GroupView, roster: Roster, activities: dict[int, Activity]) -> tuple[int, ...]:
    """Members without a trace who cannot have come: gone, stopped, or by their stack not communicating."""
    return tuple(
        rank
        for rank in group.unknown
        if roster.ranks[rank].gone
        or roster.ranks[rank].presence is Presence.STOPPED
        or (activities[rank].frames and not activities[rank].waits_for_ranks)
    )


def _collective_edge(
    group: GroupView,
    rank: int,
    sequence: int,
    trace: Trace,
    holders: tuple[int, ...],
    activities: dict[int, Activity],
) -> Edge:
    record = trace.record(group.lanes[rank].at(sequence)[0])
    site = record.call_site[-1] if record.call_site else activities[rank].user
    return Edge(rank, holders, group, record.signature, sequence, False, site, record.created_ns)


def _p2p_edges(group: GroupView, activities: dict[int, Activity]) -> list[Edge]:
    unfinished: dict[tuple[str, int | None, int | None], int] = defaultdict(int)
    for operation in group.p2p:
        unfinished[operation.op, operation.source, operation.target] += 1
    oldest: dict[tuple[int, str, int | None], PendingP2P] = {}
    for operation in group.p2p:
        oldest.setdefault((operation.rank, operation.op, operation.peer), operation)
    return [
        Edge(
            waiter=operation.rank,
            holders=() if unfinished[_counterpart(operation)] else (operation.peer,),
            group=group,
            signature=operation.record.signature,
            sequence=None,
            is_p2p=True,
            call_site=operation.record.call_site[-1] if operation.record.call_site else activities[operation.rank].user,
            created_ns=operation.record.created_ns,
        )
        for operation in oldest.values()
        if operation.peer is not None
    ]


def _counterpart(operation: PendingP2P) -> tuple[str, int | None, int | None]:
    return ("recv" if operation.op == "send" else "send", operation.source, operation.target)
