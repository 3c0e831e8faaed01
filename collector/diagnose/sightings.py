"""Step 1, first part: which processes were seen that claim to be ranks, and which of them counts.

Attempts are never mixed: only the newest one counts, and of several processes that claim one rank the one started last;
the others are told as conflicts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from collector.diagnose.expected import Expected
from shared.diagnosis import Conflict
from shared.missing import Missing
from shared.ranks import fold
from shared.snapshot import Identity, NodeSnapshot, RankSnapshot
from shared.trace import State, Trace

MOST_RANKS = 131_072
"""Ranks beyond this are left out: a job's own word may be hostile, and each rank costs memory here."""


def sightings_of(snapshots: Sequence[NodeSnapshot], job: str | None) -> list[RankSnapshot]:
    """Return every look at a process that claims to be a rank of the job, by rank and from oldest to newest."""
    every = (rank for snapshot in snapshots for rank in snapshot.ranks if 0 <= rank.identity.rank < MOST_RANKS)
    mine = [rank for rank in every if job is None or rank.identity.job in (job, None)]
    tied = len(set(map(_order, mine))) < len(mine)
    return sorted(mine, key=_whole_order if tied else _order)


def _order(sighting: RankSnapshot) -> tuple[int, float, int]:
    identity = sighting.identity
    return identity.rank, identity.started_at or 0.0, sighting.looked_at_ns or 0


def _whole_order(sighting: RankSnapshot) -> tuple[int, float, int, int, int, int]:
    done = sighting.recorder.state.count(State.COMPLETED) if isinstance(sighting.recorder, Trace) else 0
    return *_order(sighting), newest_ns(sighting.recorder), done, sighting.identity.pid or 0


def newest_ns(recorder: Trace | Missing | None) -> int:
    """When the newest operation on record was issued, in Unix nanoseconds; 0: not known."""
    return max(recorder.created_ns, default=0) if isinstance(recorder, Trace) else 0


ProcessKey = tuple[str, int, float]
"""What no two processes have in common."""


def process_key(identity: Identity) -> ProcessKey:
    return (identity.host or "", identity.pid or 0, identity.started_at or 0.0)


def one_process_per_rank(
    sightings: list[RankSnapshot], off: Mapping[str, int]
) -> tuple[dict[int, tuple[RankSnapshot, ...]], list[Conflict]]:
    """Return the looks at the process of each rank that counts. `off`: nanoseconds that clocks are ahead, by host."""
    chosen: dict[int, tuple[RankSnapshot, ...]] = {}
    conflicts = []
    for rank, seen in groupby(sightings, key=lambda sighting: sighting.identity.rank):
        processes: dict[ProcessKey, list[RankSnapshot]] = {}
        for sighting in seen:
            processes.setdefault(process_key(sighting.identity), []).append(sighting)
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


def older_attempts(sightings: list[RankSnapshot], attempt: int) -> list[Conflict]:
    """Tell of processes that an earlier attempt left behind."""
    older = {s.identity.rank for s in sightings if s.identity.attempt < attempt}
    if not older:
        return []
    text = f"ranks {fold(older)} still have processes of an attempt before attempt {attempt}; they were left out"
    return [Conflict(sources=("process", "process"), text=text)]


def world_size_of(chosen: dict[int, tuple[RankSnapshot, ...]], expected: Expected) -> tuple[int | None, list[Conflict]]:
    """Return how many ranks the job has, by what most of them say, and who says something else."""
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
