"""Step 1, first part: which processes were seen that claim to be ranks, and which of them counts.

Attempts are never mixed: only the newest one counts, and of several processes that claim one rank the one started last;
the others are told as conflicts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import prod

from collector.align.expected import Expected
from collector.align.groups.signature_rules import members_by_sizes
from shared.answer.diagnosis import Conflict
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from shared.wire.trace import Origin, Signature, State, Trace

MOST_RANKS = 131_072
"""Ranks beyond this are left out: a job's own word may be hostile, and each rank costs memory here."""


def sightings_of(snapshots: Sequence[NodeSnapshot], job: str | None) -> list[RankSnapshot]:
    """Return every look at a process that claims to be a rank of the job, by rank and from oldest to newest."""
    every = (rank for snapshot in snapshots for rank in snapshot.ranks if 0 <= rank.identity.rank < MOST_RANKS)
    mine = _without_outdated([rank for rank in every if job is None or rank.identity.job in (job, None)])
    tied = len(set(map(_order, mine))) < len(mine)
    return sorted(mine, key=_whole_order if tied else _order)


def _without_outdated(sightings: list[RankSnapshot]) -> list[RankSnapshot]:
    """Leave out what a watchdog wrote into a file before another rank issued more: the rank may have gone on, too."""
    if not any(map(_is_from_file, sightings)):
        return sightings
    newest = max(newest_ns(sighting.recorder) for sighting in sightings)
    return [
        sighting.model_copy(update={"recorder": _OUTDATED})
        if _is_from_file(sighting) and (sighting.recorded_at_ns or 0) < newest
        else sighting
        for sighting in sightings
    ]


_OUTDATED = Missing(
    source="recorder",
    reason=Reason.REFUSED,
    detail="the file that its watchdog left was written before other ranks issued their last operations",
)


def _is_from_file(sighting: RankSnapshot) -> bool:
    return isinstance(sighting.recorder, Trace) and Origin.DUMP_FILE in sighting.recorder.origin


def impossible_ranks(snapshots: Sequence[NodeSnapshot], job: str | None) -> list[Conflict]:
    """Report processes that claim a rank which is beyond any."""
    every = {
        (rank.identity.rank, rank.identity.job, rank.identity.host or "an unnamed host", rank.identity.pid or 0)
        for snapshot in snapshots
        for rank in snapshot.ranks
        if not 0 <= rank.identity.rank < MOST_RANKS
    }
    mine = sorted((rank, host, pid) for rank, of, host, pid in every if job is None or of in (job, None))
    if not mine:
        return []
    told = ", ".join(f"rank {_number(rank)} by pid {pid} on {host}" for rank, host, pid in mine[:_MOST_TOLD])
    more = f" and {len(mine) - _MOST_TOLD} more" if len(mine) > _MOST_TOLD else ""
    text = f"these rank numbers are implausible: {told}{more}; they were left out"
    return [Conflict(sources=("process", "process"), text=text)]


_MOST_TOLD = 8
_LONGEST_NUMBER = 20


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


def world_size_of(
    chosen: dict[int, tuple[RankSnapshot, ...]], expected: Expected, logged: Iterable[LoggedCommunicator] = ()
) -> tuple[int | None, list[Conflict]]:
    """Return how many ranks the job has, by what most of them say, and who says something else.

    Where none does it is as large as the largest group at least: without that, who left no dump would be nobody. A size
    beyond MOST_RANKS is not believed, and reported.
    """
    claims: dict[int, set[int]] = defaultdict(set)
    for rank, looks in chosen.items():
        if looks[-1].identity.world_size is not None and looks[-1].identity.world_size > 0:
            claims[looks[-1].identity.world_size].add(rank)
    believed = {size: ranks for size, ranks in claims.items() if size <= MOST_RANKS}
    conflicts = [] if len(believed) == len(claims) else [_not_believed(claims)]
    if expected.world_size is not None:
        return expected.world_size, [*conflicts, *_differing(claims)] if claims.keys() - {expected.world_size} else []
    if len(claims) > 1:
        conflicts += _differing(claims)
    if not believed:
        named = [rank + 1 for looks in chosen.values() for rank in _ranks_in_groups(looks)]
        largest = max((*named, *(one.size for one in logged), _members_by_sizes(chosen)), default=0)
        told = largest if largest > max(chosen, default=0) + 1 or named else None
        return (told if told is None or told <= MOST_RANKS else None), conflicts
    return max(believed, key=lambda size: (len(believed[size]), size)), conflicts


def _members_by_sizes(chosen: dict[int, tuple[RankSnapshot, ...]]) -> int:
    """Return the members of the largest group by its operations' sizes; 0: these do not tell.

    Of parts that are not equal the largest tells fewest: no group is smaller than the rank says that passed that.
    """
    told = []
    for looks in chosen.values():
        used = {each for look in looks if isinstance(look.recorder, Trace) for each in look.recorder.signatures}
        told.append(max((_members(each) or 0 for each in used), default=0))
    return min(filter(None, told), default=0)


def _members(signature: Signature) -> int | None:
    into, out = (sum(map(prod, sizes)) for sizes in (signature.input_sizes, signature.output_sizes))
    return members_by_sizes(signature.op, into, out)


def _not_believed(claims: Mapping[int, set[int]]) -> Conflict:
    told = [f"ranks {fold(ranks)} say {_number(size)}" for size, ranks in sorted(claims.items()) if size > MOST_RANKS]
    text = f"ignored a world size above {MOST_RANKS}: " + ", ".join(told[:_MOST_TOLD])
    return Conflict(sources=("process", "process"), text=text)


def _differing(claims: Mapping[int, set[int]]) -> list[Conflict]:
    told = [f"ranks {fold(ranks)} say {_number(size)}" for size, ranks in sorted(claims.items())]
    return [Conflict(sources=("process", "process"), text="world sizes differ: " + ", ".join(told))]


def _number(size: int) -> str:
    return str(size) if size < 10**_LONGEST_NUMBER else f"a number of {size.bit_length()} bits"


def _ranks_in_groups(looks: tuple[RankSnapshot, ...]) -> Iterable[int]:
    for look in looks:
        if isinstance(look.recorder, Trace):
            for group in look.recorder.groups:
                if group.members:
                    yield int(group.members.replace("-", ",").rsplit(",", 1)[-1])
