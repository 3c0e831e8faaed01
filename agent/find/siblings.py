"""Processes that were started together with a rank and are no ranks yet: they may be those that it waits for.

Whoever is started by `mp.spawn`, or by a script of somebody's own, has nothing in its environment that makes it a rank,
and no process group before all have met. While it imports, nobody knows it but by its place beside one that is known.
Told are processes of the same parent that run the same program with the same arguments, but for the numbers in them:

1. where ranks of that rank's job are lacking on this node, so that each of them may be one;
2. not what a rank has started, such as DataLoader workers: these are its children;
3. nor what multiprocessing starts for itself, which has other arguments;
4. with them what they have started in turn.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agent.find.processes import Candidate, Lister, Listing
from agent.proc.procfs import TICKS_PER_SECOND, Stat

_MOST = 64
_NUMBER = re.compile(r"\d+")
TOGETHER_SECONDS = 15.0
"""A launcher starts its ranks within this; what it started at another time was no rank of the same attempt."""


def siblings_of(ranks: Sequence[Candidate], listing: Listing, lister: Lister) -> Mapping[int, tuple[int, ...]]:
    """Return them by the process id of the rank that they stand beside: of several ranks, of the first alone."""
    known, lacking, families = {rank.stat.pid for rank in ranks}, _lacking(ranks), listing.children()
    beside: dict[int, tuple[int, ...]] = {}
    for rank in (rank for rank in ranks if rank.has_group and lacking[rank.identity.job] > 0):
        parent = rank.stat.parent_pid
        if not known.isdisjoint((parent, *listing.ancestors(parent))):  # 2
            continue
        others = (listing.stats[pid] for pid in families.pop(parent, ()) if pid not in known)
        found = [stat.pid for stat in others if _is_alike(stat, rank.stat, lister)]
        for pid in found:  # 4: the list grows meanwhile
            found += families.get(pid, ())
        if found:
            beside[rank.stat.pid] = tuple(found[:_MOST])
    return beside


def _lacking(ranks: Iterable[Candidate]) -> Mapping[str | None, int]:
    """How many ranks each job has beyond those that are here."""
    here: dict[str | None, set[int]] = defaultdict(set)
    size: dict[str | None, int] = defaultdict(int)
    for rank in ranks:
        job = rank.identity.job
        here[job].add(rank.identity.rank)
        size[job] = max(size[job], rank.identity.world_size or 0)
    return {job: size[job] - len(numbers) for job, numbers in here.items()}


def _is_alike(stat: Stat, rank: Stat, lister: Lister) -> bool:
    if stat.state in "ZX" or abs(stat.start_ticks - rank.start_ticks) > TOGETHER_SECONDS * TICKS_PER_SECOND:
        return False
    words = _without_numbers(stat, lister)
    return bool(words) and words == _without_numbers(rank, lister)  # 3


def _without_numbers(stat: Stat, lister: Lister) -> list[str]:
    return [_NUMBER.sub("0", word) for word in lister.arguments(stat)]
