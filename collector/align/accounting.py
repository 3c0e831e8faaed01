"""Step 1 of the verdict: account for every rank.

Snapshots of all looks come in any order; here they become one `RankView` per expected rank, each with a `Presence`.
Which processes count is said in `processes.py`, what is known of ranks that no look saw in `absent_ranks.py`.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from collector.align.absent_ranks import ended_by_ras, ended_ranks, of_files, only_logged, views_of_absent
from collector.align.expected import Expected
from collector.align.logs.unowned_lines import logged_communicators, unowned_events
from collector.align.node_clocks import clocks_off
from collector.align.processes import (
    MOST_RANKS,
    ProcessKey,
    impossible_ranks,
    older_attempts,
    one_process_per_rank,
    process_key,
    sightings_of,
    world_size_of,
)
from collector.align.ras.communicators import lost_processes, ras_view
from collector.align.roster import ByRank, Presence, RankView, Roster, never_seen, timed_out
from collector.align.stacks.telling_threads import with_telling_threads
from collector.align.thresholds import GUESSED_AT_LEAST, GUESSED_PER_RANK
from shared.missing import Missing, Reason
from shared.wire.log_events import LogEvent, Logs
from shared.wire.snapshot import Exited, NodeSnapshot, Process, RankSnapshot, lists_late


def account_for_ranks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Roster:
    """Bring the snapshots of all looks into one view per rank, gone ones included."""
    sightings = sightings_of(snapshots, expected.job)
    ended = {} if sightings or expected.job is None else ended_ranks(snapshots, expected)
    attempt = max([s.identity.attempt for s in sightings] + [one.attempt for one in ended.values()], default=0)
    current = [s for s in sightings if s.identity.attempt == attempt]
    off = clocks_off(current)
    chosen, conflicts = one_process_per_rank(current, off)
    conflicts += (*older_attempts(sightings, attempt), *impossible_ranks(snapshots, expected.job))
    logged = logged_communicators(chosen, snapshots)
    world_size, disagreement = world_size_of(chosen, expected, logged)
    if world_size is None and ended:
        world_size = max([one.world_size or 0 for one in ended.values()] + [max(ended) + 1])
    nodes, common = _by_host(snapshots), _common_logs(snapshots)
    seen = {
        rank: _seen_view(rank, looks, nodes, _logged(rank, looks, common.get(rank, [])))
        for rank, looks in chosen.items()
    }
    absent = [rank for rank in range(_size(world_size, seen)) if rank not in seen]
    gone = {
        rank: replace(view, logged=_logged(rank, (), common[rank])) if rank in common else view
        for rank, view in views_of_absent(absent, seen, snapshots, expected, attempt).items()
    }
    live = bool(ended) or any(s.looked_at_ns is not None or timed_out(s.process) for s in current)
    gone = gone if live else _of_files(gone, seen, world_size)
    ras = ras_view(chosen, snapshots, world_size)
    gone = ended_by_ras(gone, ras, snapshots)
    return Roster(
        job=expected.job or next((s.identity.job for s in current), None),
        world_size=world_size,
        ranks=ByRank(with_telling_threads(dict(sorted((seen | gone).items()))), never_seen),
        conflicts=tuple(conflicts + disagreement),
        live=live,
        last_look_ns=max(
            (s.looked_at_ns - off.get(s.identity.host or "", 0) for s in current if s.looked_at_ns is not None),
            default=None,
        ),
        unowned=unowned_events(chosen, snapshots),
        communicators=logged,
        ras=ras,
        lost_by_ras=lost_processes(snapshots),
        unlisted=_unlisted(snapshots, expected),
        clocks_off=off,
    )


def _of_files(gone: dict[int, RankView], seen: Mapping[int, RankView], world_size: int | None) -> dict[int, RankView]:
    """What is to be said of ranks of which nothing is there but what they logged, if anything."""
    undumped = only_logged(seen)
    alone = len(gone) + len(undumped) == 1 and world_size is not None
    return {rank: of_files(view, alone=alone) for rank, view in gone.items()} | undumped


def _unlisted(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[str, ...]:
    """Nodes without time to list their processes; where no rank is seen at all, those that did not answer in time."""
    shown = {each.host for each in snapshots if each.ranks}
    late = {each.host for each in snapshots if each.host is not None and lists_late(each.missing)}
    if not shown:
        late |= {u.host for u in expected.unanswered if u.missing.reason is Reason.TIMED_OUT}
    return tuple(sorted(host for host in late if host not in shown))


def _size(world_size: int | None, seen: Collection[int]) -> int:
    """Return how many ranks are to be accounted for. One that claims to be beyond the job makes it no larger.

    Nor does one far beyond all others where nobody says how many there are: that would be a guess of mere absence.
    """
    if world_size is not None:
        return min(world_size, MOST_RANKS)
    size = max(seen, default=-1) + 1
    return size if size <= GUESSED_AT_LEAST + GUESSED_PER_RANK * len(seen) else 0


def _common_logs(snapshots: Sequence[NodeSnapshot]) -> dict[int, list[LogEvent]]:
    """What each rank wrote into files that are no rank's own."""
    written: dict[int, list[LogEvent]] = defaultdict(list)
    for snapshot in snapshots:
        for event in snapshot.logs.events if snapshot.logs is not None else ():
            if event.rank is not None:
                written[event.rank].append(event)
    return written


def _logged(rank: int, looks: tuple[RankSnapshot, ...], common: list[LogEvent]) -> tuple[LogEvent, ...]:
    own = [event for look in looks if isinstance(look.logs, Logs) for event in look.logs.events if event.rank == rank]
    if len(own) + len(common) < 2:
        return (*own, *common)
    return tuple({_text(event): event for event in (*own, *sorted(common, key=_text))}.values())


def _text(event: LogEvent) -> str:
    """Return what is equal for equal events: pydantic's own `repr` takes several times as long."""
    return repr(event.__dict__)


class _Node:
    """What the looks at one node as a whole tell of processes that are gone from it."""

    def __init__(self, snapshots: Sequence[NodeSnapshot]) -> None:
        self._exited = [exited for snapshot in snapshots for exited in snapshot.exited]
        self._whole = [each for each in snapshots if each.tells_absence and each.taken_at_ns is not None]
        self._newest = max(self._whole, key=lambda each: each.taken_at_ns or 0, default=None)
        self._here = {process_key(rank.identity) for rank in self._newest.ranks} if self._newest is not None else set()

    def vanished(self, last: RankSnapshot) -> Exited | None:
        """A rank that an earlier look saw and a later look at the same node did not, has ended in between."""
        identity = last.identity
        exits = [e for e in self._exited if e.pid == identity.pid and (e.identity is None or e.identity == identity)]
        if exits:
            return exits[-1]
        if self._newest is None or last.looked_at_ns is None or (self._newest.taken_at_ns or 0) <= last.looked_at_ns:
            return None
        key = process_key(identity)
        if key in self._here or not self._is_one_agent(key):
            return None
        return Exited(pid=identity.pid or 0, identity=identity)

    def _is_one_agent(self, gone: ProcessKey) -> bool:
        """Did whoever looked last see the rank before? Machines may share a name, and a box may have several agents."""
        if not self._here:
            return True
        before = ({process_key(rank.identity) for rank in snapshot.ranks} for snapshot in self._whole)
        return any(gone in seen and seen & self._here for seen in before)


def _by_host(snapshots: Sequence[NodeSnapshot]) -> dict[str | None, _Node]:
    nodes: dict[str | None, list[NodeSnapshot]] = defaultdict(list)
    for snapshot in snapshots:
        nodes[snapshot.host].append(snapshot)
    return {host: _Node(looks) for host, looks in nodes.items()}


_NO_NODE = _Node(())

_PRESENCES = {
    "T": Presence.STOPPED,
    "D": Presence.UNINTERRUPTIBLE,
    "Z": Presence.EXITED,
    "X": Presence.EXITED,
}
"""By the state of a process."""


def _presence(process: Process | Missing) -> Presence:
    if not isinstance(process, Process):
        return Presence.RUNNING
    return Presence.FROZEN if process.frozen_by else _PRESENCES.get(process.state, Presence.RUNNING)


def _seen_view(
    rank: int, looks: tuple[RankSnapshot, ...], nodes: Mapping[str | None, _Node], logged: tuple[LogEvent, ...]
) -> RankView:
    last = looks[-1]
    host, presence, vanished = last.identity.host, Presence.RECORDED, None
    if last.looked_at_ns is not None:
        vanished = nodes.get(host, _NO_NODE).vanished(last)
        presence = _presence(last.process) if vanished is None else Presence.EXITED
    return RankView(rank, presence, looks, exited=vanished, host=host, logged=logged)
