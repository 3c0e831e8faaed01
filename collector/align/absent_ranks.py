"""Step 1, last part: what is known of ranks that no look saw.

Absence is evidence only where somebody looked and could have seen: of all others nobody knows anything.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from collector.align.expected import Expected, NodesAsked
from collector.align.logs.attributed_lines import is_wait
from collector.align.processes import MOST_RANKS
from collector.align.ras.communicators import RasView
from collector.align.roster import Presence, RankView
from shared.rank_sets import unfold
from shared.wire.snapshot import Exited, Identity, NodeSnapshot


def views_of_absent(
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
    told = frozenset(unfold(expected.told)) | _in_other_jobs(seen, expected)
    for rank in absent:
        silent = nodes.get(rank)
        if rank in told:
            views[rank] = RankView(rank, Presence.UNSEEN)
        elif rank in remembered:
            exited = remembered[rank]
            host = exited.identity.host if exited.identity is not None else None
            views[rank] = RankView(rank, Presence.EXITED, exited=exited, host=host)
        elif silent is not None:
            views[rank] = RankView(rank, Presence.UNREACHABLE, unanswered=silent, host=silent.host)
    left = [rank for rank in absent if rank not in views]
    return views | _by_elimination(left, seen, exits, snapshots, expected, job)


def _in_other_jobs(seen: Mapping[int, RankView], expected: Expected) -> frozenset[int]:
    """Return the ranks that another job beside it has instead: these may be of it, and have begun anew elsewhere.

    After an abort ranks meet at another address, and what names a job may be no more than where its ranks meet.
    """
    sizes = {view.identity.world_size for view in seen.values() if view.identity is not None}
    beside = (frozenset(unfold(each.ranks)) for each in expected.neighbours if {each.world_size} == sizes)
    return frozenset().union(*(ranks for ranks in beside if not ranks & seen.keys()))


def ended_by_ras(
    views: Mapping[int, RankView], ras: RasView | None, snapshots: Sequence[NodeSnapshot]
) -> dict[int, RankView]:
    """Return the views, where of ranks that no node has some have ended: NCCL RAS knows a process that is no more."""
    nodes = {place: each.host for each in snapshots if each.ras is not None for place in each.ras.gone}
    places = {} if ras is None else ras.places
    ended = {
        rank: replace(view, presence=Presence.EXITED, exited=Exited(pid=places[rank][1]), host=nodes[places[rank]])
        for rank, view in views.items()
        if view.presence is Presence.ABSENT and places.get(rank) in nodes
    }
    return {**views, **ended}


def ended_ranks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> dict[int, Identity]:
    """Return the ranks of a job of which only processes that have ended are known, of its newest attempt."""
    known = [e.identity for s in snapshots for e in s.exited if e.identity is not None]
    ours = [one for one in known if one.job == expected.job and expected.user in (None, one.user)]
    newest = max((one.attempt for one in ours), default=0)
    return {one.rank: one for one in ours if one.attempt == newest and 0 <= one.rank < MOST_RANKS}


def of_files(view: RankView, *, alone: bool) -> RankView:
    """Return what files tell of a rank that left no dump. The only one of its job to leave none counts as looked for.

    Unless it logged that it waited, too.
    """
    left_out = view.presence is Presence.ABSENT or (alone and view.presence is Presence.UNSEEN)
    return replace(view, presence=Presence.LEFT_OUT) if left_out and not any(map(is_wait, view.logged)) else view


def only_logged(seen: Mapping[int, RankView]) -> dict[int, RankView]:
    """Return the ranks of which there is a log at most, where of others there are dumps: nobody saw where they are."""
    bare = {r: view for r, view in seen.items() if (view.trace, view.stacks, view.native_stacks) == (None, None, None)}
    return (
        {rank: replace(view, presence=Presence.UNSEEN) for rank, view in bare.items()} if len(bare) < len(seen) else {}
    )


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
    whole = {snapshot.host for snapshot in snapshots if snapshot.tells_absence}
    for host, ranks in _lacking(left, seen).items():
        if host not in whole and not zombies:
            continue
        match = list(zombies.values()) if len(zombies) == len(ranks) == 1 else []
        for rank in ranks:
            exited = match[0] if match else None
            presence = Presence.EXITED if exited or zombies else Presence.ABSENT
            views[rank] = RankView(rank, presence, exited=exited, host=host)
    nowhere = [rank for rank in left if rank not in views]
    presence = _of_nowhere(nowhere, seen, expected)
    nameless = [u for u in expected.unanswered if not u.ranks]
    only = nameless[0] if len(nameless) == 1 else None
    for rank in nowhere:
        views[rank] = RankView(
            rank, presence, unanswered=next(iter(nameless), None), host=None if only is None else only.host
        )
    return views


def _of_nowhere(ranks: Sequence[int], seen: Mapping[int, RankView], expected: Expected) -> Presence:
    """Tell what it means that these ranks are on no node that answered.

    All nodes of the job answered: they are absent. Nobody knows which nodes are the job's, and those that answered
    without a rank of it would hold them: they may have been there. Else they are where nobody looked.
    """
    if any(not silent.ranks for silent in expected.unanswered):
        return Presence.UNREACHABLE
    if expected.nodes_asked is NodesAsked.ALL:
        return Presence.ABSENT
    held = expected.nodes_without_ranks * _ranks_per_node(seen)
    fits = expected.nodes_asked is NodesAsked.UNKNOWN and ranks and len(ranks) <= held
    return Presence.LEFT_OUT if fits else Presence.UNSEEN


def _ranks_per_node(seen: Mapping[int, RankView]) -> int:
    """Return how many ranks the smallest node of the job has, by LOCAL_WORLD_SIZE or else by those that are seen."""
    here: dict[str | None, int] = defaultdict(int)
    said: dict[str | None, int] = {}
    for view in seen.values():
        here[view.host] += 1
        if view.identity is not None and view.identity.local_world_size is not None:
            said[view.host] = view.identity.local_world_size
    return min((said.get(host, count) for host, count in here.items()), default=0)


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
