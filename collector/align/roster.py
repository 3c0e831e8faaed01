"""Step 1 of the verdict: account for every rank.

Snapshots of all looks come in any order; here they become one `RankView` per expected rank, each with a `Presence`.
Which processes count is said in `sightings.py`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from collector.align.expected import Expected, Unanswered
from collector.align.logs.rank_log_lines import logged_communicators, unowned_events
from collector.align.node_clocks import clocks_off
from collector.align.processes import (
    MOST_RANKS,
    ProcessKey,
    impossible_ranks,
    newest_ns,
    older_attempts,
    one_process_per_rank,
    process_key,
    sightings_of,
    world_size_of,
)
from collector.align.ras.communicators import RasView, lost_processes, ras_view
from shared.answer.diagnosis import Conflict
from shared.ranks import unfold
from shared.wire.log_events import LogEvent, Logs
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import Exited, Identity, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Stacks
from shared.wire.trace import Trace


class Presence(StrEnum):
    """What has become of a rank's process."""

    RUNNING = "running"
    STOPPED = "stopped"
    """State T: stopped by a signal, and not by a debugger that traces it."""
    UNINTERRUPTIBLE = "uninterruptible"
    EXITED = "exited"
    UNREACHABLE = "unreachable"
    ABSENT = "absent"
    """Whoever could have seen it looked, and it was not there."""
    UNSEEN = "unseen"
    """Nobody looked where it may be: on another node, or in a file that was not given. It is accused of nothing."""
    RECORDED = "recorded"
    """Known from files only; whether it runs is not known."""


GONE = frozenset({Presence.EXITED, Presence.UNREACHABLE, Presence.ABSENT, Presence.UNSEEN})
"""Presences of which nobody can say where the rank is now."""


UNKNOWN = frozenset({Presence.UNREACHABLE, Presence.UNSEEN})
"""Presences of ranks that may be at work, or wait like everybody else."""


@dataclass(frozen=True)
class RankView:
    """One rank as all looks together show it. `looks` run from oldest to newest."""

    rank: int
    presence: Presence
    looks: tuple[RankSnapshot, ...] = ()
    exited: Exited | None = None
    unanswered: Unanswered | None = None
    host: str | None = None
    logged: tuple[LogEvent, ...] = ()
    """What it wrote, in its own logs and in those that it shares, oldest look first."""

    @cached_property
    def identity(self) -> Identity | None:
        if self.looks:
            return self.looks[-1].identity
        return self.exited.identity if self.exited is not None else None

    @cached_property
    def process(self) -> Process | None:
        return next((p for p in self._newest_first("process") if isinstance(p, Process)), None)

    @cached_property
    def trace(self) -> Trace | None:
        """The newest flight record that any look gave."""
        return next((t for t in self._newest_first("recorder") if isinstance(t, Trace)), None)

    @cached_property
    def stacks(self) -> Stacks | None:
        """The newest Python stacks, without native frames where there are such."""
        seen = [s for s in self._newest_first("stacks") if isinstance(s, Stacks)]
        return next((s for s in seen if not s.native), seen[0] if seen else None)

    @cached_property
    def native_stacks(self) -> Stacks | None:
        return next((s for s in self._newest_first("stacks") if isinstance(s, Stacks) and s.native), None)

    @property
    def gone(self) -> bool:
        return self.presence in GONE

    @cached_property
    def newest_ns(self) -> int:
        """When its newest operation on record was issued, in Unix nanoseconds; 0: not known."""
        return newest_ns(self.trace)

    def _newest_first(self, source: str) -> Iterable[object]:
        return (getattr(look, source) for look in reversed(self.looks))


@dataclass(frozen=True)
class Roster:
    """Every rank of one attempt of one job."""

    job: str | None
    world_size: int | None
    ranks: dict[int, RankView]
    conflicts: tuple[Conflict, ...]
    live: bool
    """Was any rank's process looked at (now or when a snapshot was saved), or are there bare dumps only?"""
    last_look_ns: int | None
    unowned: tuple[LogEvent, ...] = ()
    """What was logged into files that several ranks write, by lines that do not say who wrote them."""
    communicators: tuple[LoggedCommunicator, ...] = ()
    """What NCCL logged of its calls, by every process and file."""
    ras: RasView | None = None
    """What NCCL RAS tells of these ranks; None: nothing."""
    lost_by_ras: tuple[str, ...] = ()
    """Processes that RAS could not reach, whatever rank they are."""
    clocks_off: Mapping[str, int] = field(default_factory=dict)
    """By how many nanoseconds nodes' clocks are ahead of most others', of those that are far off."""

    def ahead_ns(self, rank: int) -> int:
        """Return what to take from a rank's times before they are compared with those of other ranks."""
        return self.clocks_off.get(self.ranks[rank].host or "", 0)

    def present(self) -> Sequence[RankView]:
        return self._present

    def gone(self) -> Sequence[RankView]:
        return self._gone

    @cached_property
    def by_host(self) -> Mapping[str | None, Sequence[RankView]]:
        """The ranks of each node."""
        nodes: dict[str | None, list[RankView]] = defaultdict(list)
        for view in self.ranks.values():
            nodes[view.host].append(view)
        return dict(nodes)

    @cached_property
    def _present(self) -> tuple[RankView, ...]:
        return tuple(view for view in self.ranks.values() if not view.gone)

    @cached_property
    def _gone(self) -> tuple[RankView, ...]:
        return tuple(view for view in self.ranks.values() if view.gone)


_GUESSED_AT_LEAST = 1024
_GUESSED_PER_RANK = 64
"""Ranks that a job may have by its highest rank alone, for each that is seen."""


def account_for_ranks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Roster:
    """Bring the snapshots of all looks into one view per rank, gone ones included."""
    sightings = sightings_of(snapshots, expected.job)
    attempt = max((s.identity.attempt for s in sightings), default=0)
    current = [s for s in sightings if s.identity.attempt == attempt]
    off = clocks_off(current)
    chosen, conflicts = one_process_per_rank(current, off)
    conflicts += (*older_attempts(sightings, attempt), *impossible_ranks(snapshots, expected.job))
    world_size, disagreement = world_size_of(chosen, expected)
    nodes, common = _by_host(snapshots), _common_logs(snapshots)
    seen = {
        rank: _seen_view(rank, looks, nodes, _logged(rank, looks, common.get(rank, [])))
        for rank, looks in chosen.items()
    }
    absent = [rank for rank in range(_size(world_size, seen)) if rank not in seen]
    gone = {
        rank: replace(view, logged=_logged(rank, (), common[rank])) if rank in common else view
        for rank, view in _account_for(absent, seen, snapshots, expected, attempt).items()
    }
    live = any(s.looked_at_ns is not None for s in current)
    if not live and len(absent) == 1 and world_size is not None:
        gone = {rank: _left_out(view) for rank, view in gone.items()}
    return Roster(
        job=expected.job or next((s.identity.job for s in current), None),
        world_size=world_size,
        ranks=dict(sorted((seen | gone).items())),
        conflicts=tuple(conflicts + disagreement),
        live=live,
        last_look_ns=max(
            (s.looked_at_ns - off.get(s.identity.host or "", 0) for s in current if s.looked_at_ns is not None),
            default=None,
        ),
        unowned=unowned_events(chosen, snapshots),
        communicators=logged_communicators(chosen, snapshots),
        ras=ras_view(chosen, snapshots, world_size),
        lost_by_ras=lost_processes(snapshots),
        clocks_off=off,
    )


def _size(world_size: int | None, seen: Collection[int]) -> int:
    """Return how many ranks are to be accounted for. One that claims to be beyond the job makes it no larger.

    Nor does one far beyond all others where nobody says how many there are: that would be a guess of mere absence.
    """
    if world_size is not None:
        return min(world_size, MOST_RANKS)
    size = max(seen, default=-1) + 1
    return size if size <= _GUESSED_AT_LEAST + _GUESSED_PER_RANK * len(seen) else 0


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
    return tuple({repr(event): event for event in (*own, *sorted(common, key=repr))}.values())


class _Node:
    """What the looks at one node as a whole tell of processes that are gone from it."""

    def __init__(self, snapshots: Sequence[NodeSnapshot]) -> None:
        self._exited = [exited for snapshot in snapshots for exited in snapshot.exited]
        self._whole = [each for each in snapshots if each.whole and each.taken_at_ns is not None]
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


def _seen_view(
    rank: int, looks: tuple[RankSnapshot, ...], nodes: Mapping[str | None, _Node], logged: tuple[LogEvent, ...]
) -> RankView:
    last = looks[-1]
    host, presence, vanished = last.identity.host, Presence.RECORDED, None
    if last.looked_at_ns is not None:
        vanished = nodes.get(host, _NO_NODE).vanished(last)
        state = last.process.state if isinstance(last.process, Process) else "S"
        presence = _PRESENCES.get(state, Presence.RUNNING) if vanished is None else Presence.EXITED
    return RankView(rank, presence, looks, exited=vanished, host=host, logged=logged)


def _account_for(
    absent: list[int],
    seen: dict[int, RankView],
    snapshots: Sequence[NodeSnapshot],
    expected: Expected,
    attempt: int,
) -> dict[int, RankView]:
    """Say for each rank that nobody saw what is known of it: ended, on a silent node, or nothing at all."""
    job = expected.job or next((v.identity.job for v in seen.values() if v.identity is not None), None)
    exits = [e for s in snapshots for e in s.exited]
    remembered = {
        e.identity.rank: e
        for e in exits
        if e.identity is not None and e.identity.attempt == attempt and (job is None or e.identity.job == job)
    }
    nodes = {rank: node for node in reversed(expected.unanswered) for rank in unfold(node.ranks)}
    views: dict[int, RankView] = {}
    for rank in absent:
        silent = nodes.get(rank)
        if rank in remembered:
            exited = remembered[rank]
            host = exited.identity.host if exited.identity is not None else None
            views[rank] = RankView(rank, Presence.EXITED, exited=exited, host=host)
        elif silent is not None:
            views[rank] = RankView(rank, Presence.UNREACHABLE, unanswered=silent, host=silent.host)
    left = [rank for rank in absent if rank not in views]
    return views | _by_elimination(left, seen, exits, snapshots, expected, job)


def _left_out(view: RankView) -> RankView:
    """Of all ranks of a job this one alone left no file: it counts as looked for, and as no more than suspect."""
    return replace(view, presence=Presence.ABSENT) if view.presence is Presence.UNSEEN else view


def _by_elimination(
    left: list[int],
    seen: dict[int, RankView],
    exits: list[Exited],
    snapshots: Sequence[NodeSnapshot],
    expected: Expected,
    job: str | None,
) -> dict[int, RankView]:
    """Place the ranks that no source names: on the node that lacks ranks, else on the one node that is silent.

    Absence is evidence only where somebody looked and could have seen: of all others nobody knows anything.
    """
    views: dict[int, RankView] = {}
    zombies = {e.pid: e for e in exits if e.identity is None and (job is None or job in e.sibling_jobs)}
    whole = {snapshot.host for snapshot in snapshots if snapshot.whole}
    for host, ranks in _lacking(left, seen).items():
        if host not in whole and not zombies:
            continue
        match = list(zombies.values()) if len(zombies) == len(ranks) == 1 else []
        for rank in ranks:
            exited = match[0] if match else None
            presence = Presence.EXITED if exited or zombies else Presence.ABSENT
            views[rank] = RankView(rank, presence, exited=exited, host=host)
    nameless = [u for u in expected.unanswered if not u.ranks]
    for rank in left:
        if rank not in views:
            only = nameless[0] if len(nameless) == 1 else None
            presence = Presence.UNREACHABLE if nameless else Presence.UNSEEN
            views[rank] = RankView(
                rank, presence, unanswered=only or next(iter(nameless), None), host=only.host if only else None
            )
    return views


def _lacking(left: list[int], seen: dict[int, RankView]) -> dict[str, list[int]]:
    """Nodes that answered, yet show fewer ranks than their own LOCAL_WORLD_SIZE, with the ranks they lack.

    Global ranks of one node are consecutive under torchrun, Slurm's block distribution and Open MPI's default.
    """
    lacking: dict[str, dict[int, None]] = defaultdict(dict)
    for view in seen.values() if left else ():
        identity = view.identity
        if identity is None or identity.local_rank is None or identity.local_world_size is None:
            continue
        first = view.rank - identity.local_rank
        after = first + identity.local_world_size
        if identity.host is not None:
            here = left[bisect_left(left, first) : bisect_left(left, after)]
            lacking[identity.host].update(dict.fromkeys(here))
    return {host: list(ranks) for host, ranks in lacking.items() if ranks}
