"""Step 9's first voter: NCCL RAS's communicators over all looks, joined to global ranks.

A report counts launches at one moment of a job that may be busy: unequal counts say nothing until a second report, a
second or more later, shows the same. One that shows others says that the job moves.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from collector.align.groups.table import GroupView, Lane, Witness
from collector.align.ras.process_ranks import ProcessesOfRanks, world_of
from collector.align.thresholds import RAS_REPORTS_APART_NS
from shared.isolation import costs_itself
from shared.rank_sets import unfold
from shared.wire.ras import UNANSWERED, Communicator, Launched, RasNetwork, RasStatus
from shared.wire.snapshot import NodeSnapshot, RankSnapshot

_MOST_LOST = 16


@dataclass(frozen=True)
class RasGroup:
    """One communicator by its newest report. Ranks are global ranks."""

    view: GroupView
    """Its members, as far as they are known."""
    size: int
    launches: tuple[GroupView, ...]
    """The same, with what each has launched: one for each operation."""
    standings: dict[RasStatus, tuple[int, ...]]

    def is_whole(self, table: GroupView) -> bool:
        """Are all counted there that can have launched anything?"""
        silent = (RasStatus.NOCOMM, RasStatus.SILENT, RasStatus.DEAD, RasStatus.UNKNOWN)
        return (table.size or 0) >= self.size - sum(len(self.standings.get(status, ())) for status in silent)


@dataclass(frozen=True)
class RasView:
    """What RAS has told of one job."""

    groups: tuple[RasGroup, ...]
    trouble: dict[int, RasStatus]
    """Ranks whose process did not answer RAS, or that RAS has given up."""
    places: dict[int, tuple[str, int]]
    """Host and pid of each rank, as RAS tells them."""
    advanced: frozenset[int]
    """Ranks that launched something between two reports."""
    moved: bool
    still: bool
    """Did two reports, at least a second apart, tell the same?"""
    whole: bool
    """Does the newest report list every communicator and rank?"""


@costs_itself(lambda chosen, snapshots, world_size: None)
def ras_view(
    chosen: Mapping[int, tuple[RankSnapshot, ...]], snapshots: Sequence[NodeSnapshot], world_size: int | None
) -> RasView | None:
    """Return what RAS tells of these ranks; None where it was not asked, or knows none of them."""
    told = [
        (snapshot.host or "", network)
        for snapshot in snapshots
        if snapshot.ras is not None
        for network in snapshot.ras.networks
    ]
    if not told:
        return None
    homes = ProcessesOfRanks(chosen, snapshots)
    told.sort(key=lambda one: (one[1].asked_at_ns or 0, one[1].told_at, _dead(one[1]), one[0], repr(one[1].peers[:1])))
    joined = _known_again([(host, network, homes.ranks_of(network, world_size)) for host, network in told])
    joined = [one for one in joined if one[2] or not one[1].peers]
    if not joined:
        return None
    _, newest, ranks = joined[-1]
    world = world_of(newest, world_size)
    groups = tuple(_group(one, ranks, is_world=one is world) for one in newest.communicators)
    moved, advanced = _moves(joined)
    return RasView(
        groups=groups,
        trouble=_trouble(newest, ranks, groups),
        places={rank: newest.peers[at][:2] for at, rank in ranks.items()},
        advanced=advanced,
        moved=moved,
        still=not moved and _apart([(host, network) for host, network, _ in joined]),
        whole=newest.whole,
    )


def lost_processes(snapshots: Sequence[NodeSnapshot]) -> tuple[str, ...]:
    """Processes that RAS could not reach, whatever rank they are: its monitor mode tells of no ranks."""
    networks = [network for snapshot in snapshots if snapshot.ras is not None for network in snapshot.ras.networks]
    lost = {peer[:2] for network in networks for peer in network.peers if peer.status in UNANSWERED}
    return tuple(f"pid {pid} on {host}" for host, pid in sorted(lost)[:_MOST_LOST])


def _group(one: Communicator, ranks: Mapping[int, int], *, is_world: bool) -> RasGroup:
    """Put global ranks in the place of the communicator's own."""
    order = {own: ranks[at] for own, at in zip(one.ranks, one.peers, strict=False) if at in ranks}
    size = max(one.size or 0, *(sum(level.number for level in levels) for levels in one.launched.values()), 0)
    if is_world and all(own == rank for own, rank in order.items()):
        order = {own: own for own in range(size)} | order
    members = tuple(sorted(set(order.values())))
    title = f"communicator {one.hash}"
    view = GroupView(one.hash, "", members, members, witness=Witness.LAUNCHES, title=title, tells_waits=False)
    return RasGroup(
        view=view,
        size=size,
        launches=tuple(_table(view, op, levels, order, size) for op, levels in one.launched.items()),
        standings={
            RasStatus(standing.word): tuple(sorted(order[own] for own in unfold(standing.ranks) if own in order))
            for standing in one.standings
        },
    )


def _table(view: GroupView, op: str, levels: Sequence[Launched], order: Mapping[int, int], size: int) -> GroupView:
    """Where exactly one set is not listed, its members are those that no other set lists."""
    listed = {own for level in levels for own in unfold(level.ranks)}
    rest = tuple(own for own in order if own not in listed)
    unlisted = [level for level in levels if not level.ranks]
    deducible = len(unlisted) == 1 and len(order) == size and len(rest) == unlisted[0].number
    lanes: dict[int, Lane] = {}
    unnamed: Counter[int] = Counter()
    for level in levels:
        members = rest if deducible and not level.ranks else unfold(level.ranks)
        known = {order[own]: Lane(level.operations) for own in members if own in order}
        lanes |= known
        unnamed[level.operations] += level.number - len(known)
    counted = sum(level.number for level in levels)
    return replace(view, op=op, lanes=dict(sorted(lanes.items())), unnamed=+unnamed, size=counted)


def _trouble(network: RasNetwork, ranks: Mapping[int, int], groups: Sequence[RasGroup]) -> dict[int, RasStatus]:
    found = {rank: status for group in groups for status in UNANSWERED for rank in group.standings.get(status, ())}
    peers = {
        ranks[at]: peer.status for at, peer in enumerate(network.peers) if at in ranks and peer.status in UNANSWERED
    }
    return dict(sorted({**found, **peers}.items()))


_Joined = tuple[str, RasNetwork, dict[int, int]]


def _dead(network: RasNetwork) -> int:
    """Of reports that tell no time, one in which more processes are dead is the later: RAS takes none of them back."""
    return sum(peer.status is RasStatus.DEAD for peer in network.peers)


def _known_again(joined: Sequence[_Joined]) -> list[_Joined]:
    """Know the processes of a report that tells no ranks, as once they are dead, by another report that does."""
    homes = {network.peers[at][:2]: rank for _, network, ranks in joined for at, rank in ranks.items()}
    return [
        (host, network, ranks or {at: homes[peer[:2]] for at, peer in enumerate(network.peers) if peer[:2] in homes})
        for host, network, ranks in joined
    ]


def _moves(joined: Sequence[_Joined]) -> tuple[bool, frozenset[int]]:
    """Compare each report with the next."""
    moved, advanced = False, set()
    for (_, a, _), (_, b, ranks) in pairwise(joined):
        before = {one.key: one for one in a.communicators}
        for one in b.communicators:
            earlier = before.get(one.key)
            if earlier is None or not earlier.launched or not one.launched or earlier.launched == one.launched:
                continue
            moved = True
            members = {own: ranks[at] for own, at in zip(one.ranks, one.peers, strict=False) if at in ranks}
            advanced |= {members[own] for own in _differing(earlier, one) if own in members}
    return moved, frozenset(advanced)


def _differing(a: Communicator, b: Communicator) -> set[int]:
    """Communicator ranks whose counts are not the same in both."""
    first, second = _counts(a), _counts(b)
    return {own for own in first.keys() & second.keys() if first[own] != second[own]}


def _counts(one: Communicator) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for op, levels in one.launched.items():
        for level in levels:
            for own in unfold(level.ranks):
                found[own].append((op, level.operations))
    return found


def _apart(told: Sequence[tuple[str, RasNetwork]]) -> bool:
    """Has one node asked twice, a second or more apart? Files tell their time themselves, or not at all."""
    by_host: dict[str, list[RasNetwork]] = defaultdict(list)
    for host, network in told:
        by_host[host].append(network)
    for networks in by_host.values():
        asked = [network.asked_at_ns for network in networks if network.asked_at_ns is not None]
        if asked and max(asked) - min(asked) >= RAS_REPORTS_APART_NS:
            return True
        if len({network.told_at for network in networks if network.told_at}) > 1:
            return True
    return False
