"""Step 1, last part: what is known of ranks that no look saw.

Absence is evidence only where somebody looked and could have seen: of all others nobody knows anything.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from collector.align.expected import Expected
from collector.align.roster import Presence, RankView
from shared.ranks import unfold
from shared.wire.snapshot import Exited, NodeSnapshot


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


def left_out(view: RankView) -> RankView:
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
    """Place the ranks that no source names: on the node that lacks ranks, else on the one node that is silent."""
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
