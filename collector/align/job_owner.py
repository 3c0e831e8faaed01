"""Step 0: whose ranks the job has. Those of several users are never one job, whatever they call it.

What a job is called stands in its processes' environment, which anybody may copy. So only the ranks of one user bear
the job's name from here on, and what another user's processes say of themselves (a later attempt, the same rank)
changes nothing. Where that cannot be told, the verdict is read all the same and is not proven:

- The one who asks names no user, and several have ranks of that name: those of the user with most ranks are the job.
- Some ranks are seen by agents too old to say whose they are.
- Processes of one user in different containers take each other's place, or know of different world sizes, or some run
  in none: in Kubernetes two tenants may both be user 0 or 1000. A launcher restarts its ranks in their container.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from collector.align.expected import Expected
from collector.align.processes import MOST_RANKS
from shared.answer.diagnosis import Conflict
from shared.rank_sets import fold
from shared.wire.job_names import goes_by, with_job_name
from shared.wire.snapshot import Exited, Identity, NodeSnapshot, RankSnapshot

_MOST_SHOWN = 4


class Whose(NamedTuple):
    """One user's job among what was seen."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected
    doubts: tuple[Conflict, ...]
    """Why some of these ranks may not be of the job. Nothing is proven then."""


def one_users(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Whose:
    """Return what was seen with the job's name on the ranks of one user alone. Doing it twice changes nothing."""
    ranks: dict[str, set[int]] = defaultdict(set)
    unknown: set[int] = set()
    for identity in _of_the_name(snapshots, expected.job):
        if identity.user is not None and expected.user in (identity.user, None):
            ranks[identity.user].add(identity.rank)
        elif identity.user is None and identity.pid is not None:
            unknown.add(identity.rank)
    user = expected.user or max(ranks, key=lambda each: (len(ranks[each]), each), default=None)
    mine = apart(snapshots, expected.job, user)
    doubts = (*_several(ranks, user), *_unknown(unknown, user), *_elsewhere(mine, expected.job))
    return Whose(mine, expected.model_copy(update={"user": user}), doubts)


def apart(snapshots: Iterable[NodeSnapshot], job: str | None, user: str | None) -> tuple[NodeSnapshot, ...]:
    """Return the snapshots with the name `job` on the ranks of that job and user, and on no others.

    Of a job without a name (None) the ranks of other users are left out, as no name can tell them apart.
    """
    return tuple(_apart(snapshot, job, user) for snapshot in snapshots)


def _apart(snapshot: NodeSnapshot, job: str | None, user: str | None) -> NodeSnapshot:
    ranks = [_rank_apart(rank, job, user) for rank in snapshot.ranks if job is not None or _may_be(rank, user)]
    exited = [exited_apart(gone, job, user) for gone in snapshot.exited]
    same = len(ranks) == len(snapshot.ranks) and all(map(is_, ranks, snapshot.ranks))
    if same and all(map(is_, exited, snapshot.exited)):
        return snapshot
    return snapshot.model_copy(update={"ranks": tuple(ranks), "exited": tuple(exited)})


def _may_be(rank: RankSnapshot, user: str | None) -> bool:
    return user is None or rank.identity.user in (user, None)


def _rank_apart(rank: RankSnapshot, job: str | None, user: str | None) -> RankSnapshot:
    identity = with_job_name(rank.identity, job, user)
    return rank if identity is rank.identity else rank.model_copy(update={"identity": identity})


def exited_apart(gone: Exited, job: str | None, user: str | None) -> Exited:
    """Return what has ended under the job's name where it was of that job, and not under it elsewhere."""
    siblings = [Identity(job=name, user=gone.sibling_user, rank=0) for name in gone.sibling_jobs]
    names = tuple(name for each in siblings if (name := with_job_name(each, job, user).job) is not None)
    identity = None if gone.identity is None else with_job_name(gone.identity, job, user)
    if identity is gone.identity and names == gone.sibling_jobs:
        return gone
    return gone.model_copy(update={"identity": identity, "sibling_jobs": names})


def _of_the_name(snapshots: Sequence[NodeSnapshot], job: str | None) -> Iterator[Identity]:
    for snapshot in snapshots:
        for identity in (rank.identity for rank in snapshot.ranks):
            of_it = job is None or identity.job is None or goes_by(identity, job)
            if of_it and 0 <= identity.rank < MOST_RANKS:
                yield identity


def _several(ranks: Mapping[str, set[int]], user: str | None) -> Iterator[Conflict]:
    others = sorted(each for each in ranks if each != user)
    if others:
        shown = ", ".join(f"user {each} ranks {fold(ranks[each])}" for each in others[:_MOST_SHOWN])
        yield _conflict(f"several users have ranks of this name: those of user {user} were taken, and not {shown}")


def _unknown(unknown: set[int], user: str | None) -> Iterator[Conflict]:
    if unknown and user is not None:
        yield _conflict(
            f"ranks {fold(unknown)} may belong to another user than the rest: their agents are too old to report it"
        )


def _elsewhere(snapshots: Sequence[NodeSnapshot], job: str | None) -> Iterator[Conflict]:
    """Tell of ranks that were taken over from another container, or do not go with those in other containers."""
    every = [each for each in _of_the_name(snapshots, job) if each.job is not None and each.pid is not None]
    mine = [identity for identity in every if identity.container_id is not None]
    if not mine:
        return
    newest = max(identity.attempt for identity in mine)
    current = [identity for identity in mine if identity.attempt == newest]
    here = {identity.container_id for identity in current}
    homes: dict[int, set[str | None]] = defaultdict(set)
    sizes: dict[str | None, set[int | None]] = defaultdict(set)
    for identity in current:
        homes[identity.rank].add(identity.container_id)
        sizes[identity.container_id].add(identity.world_size)
    if outside := {each.rank for each in every if each.container_id is None}:
        yield _conflict(f"ranks {fold(outside)} run in no container, but others do: they may belong to another job")
    if left := {each.rank for each in mine if each.attempt < newest and each.container_id not in here}:
        what = f"attempt {newest} runs in other containers than ranks {fold(left)} before it"
        yield _conflict(f"{what}: it may be another job")
    if len(set(map(frozenset, sizes.values()))) > 1:
        yield _conflict("containers disagree on the world size: they may belong to different jobs")
    if twice := {rank for rank, containers in homes.items() if len(containers) > 1}:
        yield _conflict(f"ranks {fold(twice)} run in several containers at once: some may belong to another job")


def _conflict(text: str) -> Conflict:
    return Conflict(sources=("process", "process"), text=text)
