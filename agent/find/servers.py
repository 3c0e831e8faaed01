"""Processes above ranks that may take requests for them: the API server of an engine, and who hands work on from there.

1. Who started the ranks, if it runs Python and is the same user's, and who started that, up to the first that does not,
   or that is a launcher or a rank.
2. With them what the outermost of these has started beside, such as further API servers: in one family with the ranks,
   unless they have ranks of their own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent.find.launchers import is_launcher
from agent.find.process_owner import owner_of
from agent.find.processes import Candidate, Lister, Listing, RankLikelihood
from agent.proc.procfs import ProcFs, Stat

_MOST = 16


def servers_above(
    ranks: Sequence[Candidate], listing: Listing, lister: Lister, procfs: ProcFs
) -> Mapping[int, tuple[int, ...]]:
    """Return them, the nearest first, by the process id of the first rank that each family has."""
    known, families = {rank.stat.pid for rank in ranks}, listing.children()
    lines: dict[int, tuple[int, ...]] = {}
    told: set[int] = set()
    for rank in ranks:
        line = () if rank.stat.parent_pid in told else tuple(_line_above(rank.stat, known, listing, lister, procfs))
        told.update(line)
        lines |= {rank.stat.pid: line} if line else {}
    taken = known | told
    return {
        pid: (*line, *_python(families.get(line[-1], ()), taken, listing, lister))[:_MOST]
        for pid, line in lines.items()
    }


def _line_above(rank: Stat, known: set[int], listing: Listing, lister: Lister, procfs: ProcFs) -> Iterator[int]:
    """Rule 1."""
    for pid in listing.ancestors(rank.pid):
        stat = listing.stats.get(pid)
        if stat is None or pid in known or lister.runs(stat) is RankLikelihood.OTHER:
            return
        if is_launcher(lister.arguments(stat)) or owner_of(procfs, pid) != owner_of(procfs, rank.pid):
            return
        yield pid


def _python(pids: Iterable[int], taken: set[int], listing: Listing, lister: Lister) -> Iterator[int]:
    """Rule 2."""
    for pid in pids:
        if pid not in taken and lister.runs(listing.stats[pid]) is not RankLikelihood.OTHER:
            yield pid
