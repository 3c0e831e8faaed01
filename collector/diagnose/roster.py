"""Step 1 of the verdict: account for every rank.

Snapshots of all looks come in any order; here they become one `RankView` per expected rank, each with a
`Presence`. Attempts are never mixed: only the newest attempt counts, and of several processes that claim one
rank the one started last; the others are told as conflicts.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from collector.diagnose.expected import Expected, Unanswered
from collector.diagnose.logbook import logged_communicators, unowned_events
from collector.diagnose.node_clocks import clocks_off
from collector.diagnose.ras_view import RasView, ras_view
from shared.diagnosis import Conflict
from shared.log_events import LogEvent, Logs
from shared.missing import Missing
from shared.nccl_calls import LoggedCommunicator
from shared.ranks import fold, unfold
from shared.snapshot import Exited, Identity, NodeSnapshot, Process, RankSnapshot
from shared.stacks import Stacks
from shared.trace import Trace


class Presence(StrEnum):
    """What has become of a rank's process."""

    RUNNING = "running"
    STOPPED = "stopped"
    """State T: stopped by a signal, and not by a debugger that traces it."""
    UNINTERRUPTIBLE = "uninterruptible"
    EXITED = "exited"
    UNREACHABLE = "unreachable"
    ABSENT = "absent"
    """Nobody saw it, and nothing says what became of it."""
    RECORDED = "recorded"
    """Known from files only; whether it runs is not known."""


MOST_RANKS = 131_072
"""Ranks beyond this are left out: a job's own word may be hostile, and each rank costs memory here."""

GONE = frozenset({Presence.EXITED, Presence.UNREACHABLE, Presence.ABSENT})
"""Presences of which nobody can say where the rank is now."""


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
    clocks_off: Mapping[str, int] = field(default_factory=dict)
    """By how many nanoseconds nodes' clocks are ahead of most others', of those that are far off."""

    def ahead_ns(self, rank: int) -> int:
        """Return what to take from a rank's times before they are compared with those of other ranks."""
        return self.clocks_off.get(self.ranks[rank].host or "", 0)

    def present(self) -> list[RankView]:
        return [view for view in self.ranks.values() if not view.gone]

    def gone(self) -> list[RankView]:
        return [view for view in self.ranks.values() if view.gone]


def call_roll(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Roster:
    """Bring the snapshots of all looks into one view per rank, gone ones included."""
    sightings = _sightings(snapshots, expected.job)
    attempt = max((s.identity.attempt for s in sightings), default=0)
    current = [s for s in sightings if s.identity.attempt == attempt]
    off = clocks_off(current)
    chosen, conflicts = _one_process_per_rank(current, off)
    conflicts += _older_attempts(sightings, attempt)
    world_size, disagreement = _world_size(chosen, expected)
    nodes = _by_host(snapshots)
    seen = {rank: _seen_view(rank, looks, nodes) for rank, looks in chosen.items()}
    every = range(max([min(world_size or 0, MOST_RANKS), *(rank + 1 for rank in seen)]))
    absent = [rank for rank in every if rank not in seen]
    gone = _account_for(absent, seen, snapshots, expected, attempt)
    return Roster(
        job=expected.job or next((s.identity.job for s in current), None),
        world_size=world_size,
        ranks=_with_logs(seen | gone, snapshots),
        conflicts=tuple(conflicts + disagreement),
        live=any(s.looked_at_ns is not None for s in current),
        last_look_ns=max(
            (s.looked_at_ns - off.get(s.identity.host or "", 0) for s in current if s.looked_at_ns is not None),
            default=None,
        ),
        unowned=unowned_events(chosen, snapshots),
        communicators=logged_communicators(chosen, snapshots),
        ras=ras_view(chosen, snapshots, world_size),
        clocks_off=off,
    )


def _sightings(snapshots: Sequence[NodeSnapshot], job: str | None) -> list[RankSnapshot]:
    every = (rank for snapshot in snapshots for rank in snapshot.ranks if 0 <= rank.identity.rank < MOST_RANKS)
    mine = [rank for rank in every if job is None or rank.identity.job in (job, None)]
    return sorted(mine, key=_order)


def _order(sighting: RankSnapshot) -> tuple[int, float, int, int, int]:
    identity = sighting.identity
    trace = sighting.recorder
    newest = max(trace.created_ns, default=0) if isinstance(trace, Trace) else 0
    return (identity.rank, identity.started_at or 0.0, sighting.looked_at_ns or 0, newest, identity.pid or 0)


_Key = tuple[str, int, float]
"""What no two processes have in common."""


def _process_key(identity: Identity) -> _Key:
    return (identity.host or "", identity.pid or 0, identity.started_at or 0.0)


def _one_process_per_rank(
    sightings: list[RankSnapshot], off: Mapping[str, int]
) -> tuple[dict[int, tuple[RankSnapshot, ...]], list[Conflict]]:
    by_rank: dict[int, dict[tuple[str, int, float], list[RankSnapshot]]] = defaultdict(lambda: defaultdict(list))
    for sighting in sightings:
        by_rank[sighting.identity.rank][_process_key(sighting.identity)].append(sighting)
    chosen: dict[int, tuple[RankSnapshot, ...]] = {}
    conflicts = []
    for rank, processes in by_rank.items():
        newest = max(processes, key=lambda key: (key[2] - off.get(key[0], 0) / 1e9, key))
        chosen[rank] = tuple(processes[newest])
        if len(processes) > 1:
            told = ", ".join(f"pid {pid} on {host or 'an unnamed host'}" for host, pid, _ in sorted(processes))
            conflicts.append(
                Conflict(
                    sources=("process", "process"),
                    text=f"{len(processes)} processes claim rank {rank} ({told}); the one started last was taken",
                )
            )
    return chosen, conflicts


def _older_attempts(sightings: list[RankSnapshot], attempt: int) -> list[Conflict]:
    older = {s.identity.rank for s in sightings if s.identity.attempt < attempt}
    if not older:
        return []
    text = f"ranks {fold(older)} still have processes of an attempt before attempt {attempt}; they were left out"
    return [Conflict(sources=("process", "process"), text=text)]


def _world_size(chosen: dict[int, tuple[RankSnapshot, ...]], expected: Expected) -> tuple[int | None, list[Conflict]]:
    claims: dict[int, set[int]] = defaultdict(set)
    for rank, looks in chosen.items():
        if looks[-1].identity.world_size is not None and looks[-1].identity.world_size > 0:
            claims[looks[-1].identity.world_size].add(rank)
    told = [f"ranks {fold(ranks)} say {size}" for size, ranks in sorted(claims.items())]
    conflicts = [Conflict(sources=("process", "process"), text="world sizes differ: " + ", ".join(told))]
    if expected.world_size is not None:
        return expected.world_size, conflicts if claims.keys() - {expected.world_size} else []
    if not claims:
        return max((rank + 1 for looks in chosen.values() for rank in _ranks_in_groups(looks)), default=None), []
    return max(claims, key=lambda size: (len(claims[size]), size)), conflicts if len(claims) > 1 else []


def _ranks_in_groups(looks: tuple[RankSnapshot, ...]) -> Iterable[int]:
    for look in looks:
        if isinstance(look.recorder, Trace):
            for group in look.recorder.groups:
                if group.members:
                    yield int(group.members.replace("-", ",").rsplit(",", 1)[-1])


def _with_logs(views: dict[int, RankView], snapshots: Sequence[NodeSnapshot]) -> dict[int, RankView]:
    shared: dict[int, list[LogEvent]] = defaultdict(list)
    for snapshot in snapshots:
        for event in snapshot.logs.events if snapshot.logs is not None else ():
            if event.rank is not None:
                shared[event.rank].append(event)
    logged = {rank: _logged(view, shared.get(rank, [])) for rank, view in views.items()}
    return {rank: replace(view, logged=logged[rank]) if logged[rank] else view for rank, view in sorted(views.items())}


def _logged(view: RankView, shared: list[LogEvent]) -> tuple[LogEvent, ...]:
    own = [event for look in view.looks if isinstance(look.logs, Logs) for event in look.logs.events]
    mine = [event for event in own if event.rank == view.rank]
    if len(mine) + len(shared) < 2:
        return (*mine, *shared)
    return tuple({repr(event): event for event in (*mine, *sorted(shared, key=repr))}.values())


def _by_host(snapshots: Sequence[NodeSnapshot]) -> dict[str | None, list[NodeSnapshot]]:
    nodes: dict[str | None, list[NodeSnapshot]] = defaultdict(list)
    for snapshot in snapshots:
        nodes[snapshot.host].append(snapshot)
    return nodes


def _seen_view(
    rank: int, looks: tuple[RankSnapshot, ...], nodes: Mapping[str | None, Sequence[NodeSnapshot]]
) -> RankView:
    identity = looks[-1].identity
    if looks[-1].looked_at_ns is None:
        return RankView(rank, Presence.RECORDED, looks, host=identity.host)
    vanished = _vanished(looks[-1], nodes.get(identity.host, ()))
    if vanished is not None:
        return RankView(rank, Presence.EXITED, looks, exited=vanished, host=identity.host)
    process = looks[-1].process
    state = process.state if isinstance(process, Process) else "S"
    presence = {"T": Presence.STOPPED, "D": Presence.UNINTERRUPTIBLE, "Z": Presence.EXITED, "X": Presence.EXITED}
    return RankView(rank, presence.get(state, Presence.RUNNING), looks, host=identity.host)


def _vanished(last: RankSnapshot, node: Sequence[NodeSnapshot]) -> Exited | None:
    """A rank that an earlier look saw and a later look at the same node did not, has ended in between."""
    identity = last.identity
    exits = [
        exited
        for snapshot in node
        for exited in snapshot.exited
        if exited.pid == identity.pid and (exited.identity is None or exited.identity == identity)
    ]
    if exits:
        return exits[-1]
    whole = [s for s in node if s.whole and s.taken_at_ns is not None]
    newest = max(whole, key=lambda s: s.taken_at_ns or 0, default=None)
    if newest is None or last.looked_at_ns is None or (newest.taken_at_ns or 0) <= last.looked_at_ns:
        return None
    here = {_process_key(rank.identity) for rank in newest.ranks}
    if _process_key(identity) in here or not _is_one_agent(newest, here, _process_key(identity), whole):
        return None
    return Exited(pid=identity.pid or 0, identity=identity)


def _is_one_agent(newest: NodeSnapshot, here: set[_Key], gone: _Key, whole: Sequence[NodeSnapshot]) -> bool:
    """Did whoever looked last see the rank before? Machines may share a name, and a box may have several agents."""
    if not newest.ranks:
        return True
    before = ({_process_key(rank.identity) for rank in snapshot.ranks} for snapshot in whole)
    return any(gone in seen and seen & here for seen in before)


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


def _by_elimination(
    left: list[int],
    seen: dict[int, RankView],
    exits: list[Exited],
    snapshots: Sequence[NodeSnapshot],
    expected: Expected,
    job: str | None,
) -> dict[int, RankView]:
    """Place the ranks that no source names: on the node that lacks ranks, else on the one node that is silent."""
    views: dict[int, RankView] = {}
    zombies = {e.pid: e for e in exits if e.identity is None and (job is None or job in e.sibling_jobs)}
    for host, ranks in _lacking(left, seen).items():
        match = list(zombies.values()) if len(zombies) == len(ranks) == 1 else []
        for rank in ranks:
            exited = match[0] if match else None
            presence = Presence.EXITED if exited or zombies else Presence.ABSENT
            views[rank] = RankView(rank, presence, exited=exited, host=host)
    nameless = [u for u in expected.unanswered if not u.ranks]
    for rank in left:
        if rank not in views:
            only = nameless[0] if len(nameless) == 1 else None
            presence = Presence.UNREACHABLE if nameless else Presence.ABSENT
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


def source_of(view: RankView, source: str) -> Missing | None:
    """Why `source` (a field of RankSnapshot) has nothing of this rank; None if it has or nobody looked."""
    values = [getattr(look, source) for look in view.looks]
    if not values or any(not isinstance(value, Missing) for value in values):
        return None
    last = values[-1]
    return last if isinstance(last, Missing) else None
