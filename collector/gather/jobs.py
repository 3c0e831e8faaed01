"""The jobs that the agents know, put together from their lists of ranks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from pydantic import Field

from collector.align.expected import Neighbour
from collector.gather.namesakes import user_of, users_of_names
from shared.answer.incidents import JobState
from shared.endings import end_of
from shared.errors import InvalidInput, NotFound, quoted
from shared.missing import WAITING_LAUNCHERS, Missing
from shared.rank_sets import FoldedRanks, fold
from shared.shell_commands import listed
from shared.value import Value
from shared.wire.job_names import OF_SLURM, is_of, poses, qualified, was_of
from shared.wire.snapshot import Exited, Identity, RankList, lists_late


class OlderAttempt(Value):
    """Ranks that are left over from before the launcher's last restart."""

    attempt: int
    ranks: FoldedRanks
    hosts: tuple[str, ...] = ()


class JobSummary(Value):
    """One job as the agents see it now. The counts are of its newest attempt."""

    name: str = Field(description="What to ask for, e.g. `slurm-4242`.", examples=["slurm-4242"])
    world_size: int | None = Field(default=None, description="The world size, as the ranks report it.")
    ranks: FoldedRanks = Field(default="", description="Running ranks.")
    absent: FoldedRanks = Field(default="", description="Ranks that no agent sees, where the world size is known.")
    exited: FoldedRanks = Field(default="", description="Ranks that ran and are known to have exited.")
    hosts: tuple[str, ...] = ()
    attempt: int = Field(default=0, description="The launcher's restart count.")
    older_attempts: tuple[OlderAttempt, ...] = Field(default=(), description="Left-over attempts, newest first.")
    launcher: str | None = None
    started_at: float | None = Field(default=None, description="Start of its oldest running rank, Unix seconds.")
    user: str | None = Field(
        default=None, description="The job's owner: a user id, `c1000` as numbered inside a container; None: unknown."
    )
    owner: str | None = Field(default=None, description="That user's name on the nodes, where they have one.")
    state: JobState | None = Field(
        default=None, description="What it is doing, where the collector watches it; how it ended, where no rank runs."
    )
    incident: str | None = Field(default=None, description="Id of its open incident, if there is one.")


MOST_WORLD = 1_048_576
"""A larger world size, or a rank beyond it, is what a process made up, and is left out of the listing."""


_MOST_NEIGHBOURS = 64
_MOST_LAUNCHERS = 3


def summarise_jobs(lists: Iterable[RankList]) -> tuple[JobSummary, ...]:
    """Return every named job in the lists, by name; the order of the lists changes nothing.

    Jobs of several users with the same name are listed with the user appended, as `demo@1001`.
    """
    lists = tuple(lists)
    users = users_of_names(lists)
    running: dict[_Job, list[Identity]] = defaultdict(list)
    ended: dict[_Job, list[tuple[Identity, Exited]]] = defaultdict(list)
    for found in lists:
        for identity in found.ranks:
            if _is_named(identity):
                running[_job_of(identity, users)].append(_placed(identity, found.host))
        for gone in found.exited:
            if gone.identity is not None and _is_named(gone.identity):
                ended[_job_of(gone.identity, users)].append((_placed(gone.identity, found.host), gone))
    jobs = sorted(running.keys() | ended.keys(), key=lambda job: (job.name, job.user or ""))
    return tuple(_summary(job, running.get(job, []), ended.get(job, [])) for job in jobs)


class _Job(NamedTuple):
    """What distinguishes jobs."""

    name: str
    user: str | None


def _is_named(identity: Identity) -> bool:
    return identity.job is not None and 0 <= identity.rank < MOST_WORLD


def _job_of(identity: Identity, users: Mapping[str, set[str]]) -> _Job:
    """Return the job of a rank, by the name to ask for. A rank of unknown user is taken for the one known user's."""
    assert identity.job is not None
    known = users[identity.job]
    if len(known) > 1 or poses(identity):
        return _Job(qualified(identity.job, identity.user), identity.user)
    return _Job(identity.job, next(iter(known), None))


def choose_job(job: str | None, lists: Iterable[RankList], *, some_silent: bool) -> str | None:
    """Return the job to look at, by its name: the one asked for, also by Slurm's number, or the only one there is.

    Raises NotFound where no agent knows it and none is silent that might (`some_silent`), and InvalidInput where
    several are there and none was asked for, or several users have one of that name. None means: ranks that name no
    job, or nothing at all was answered.
    """
    lists = tuple(lists)
    jobs = summarise_jobs(lists)
    if job is not None:
        job = _as_named(job, lists)
        if some_silent or _seen(job, lists):
            user_of(job, lists)
            return job
        there = listed([summary.name for summary in jobs]) or "none"
        advice = "; ".join((f"running jobs: {there}", *_waiting(lists)))
        raise NotFound(f"no agent knows job {quoted(job)}", advice=advice)
    running = [summary.name for summary in jobs if summary.ranks] or [summary.name for summary in jobs]
    if len(running) > 1:
        raise InvalidInput(f"{len(running)} jobs are running: {listed(running)}", advice="name one of them")
    if running or some_silent or any(found.ranks for found in lists):
        return running[0] if running else None
    raise NotFound("no ranks were found", advice=_why_no_ranks(lists))


def _as_named(job: str, lists: Sequence[RankList]) -> str:
    """Return the name of a job that is asked for as Slurm numbers it: `71` is `slurm-71`, if nothing is called `71`."""
    named = f"{OF_SLURM}{job}"
    is_number = job.partition("@")[0].isdecimal()
    return named if is_number and not _seen(job, lists) and _seen(named, lists) else job


def _seen(job: str, lists: Iterable[RankList]) -> bool:
    return any(_has(found, job) for found in lists)


def _why_no_ranks(lists: Sequence[RankList]) -> str:
    told = unread_by(lists)
    if told:
        return "; ".join(told)
    return (
        "a rank is a process that has called init_process_group, or has a launcher's variable such as RANK or "
        "SLURM_PROCID; is the job running here?"
    )


def unread_by(lists: Iterable[RankList]) -> tuple[str, ...]:
    """Return in words what may hide ranks from these lists: launchers that wait, and processes that nobody may read."""
    lists = tuple(lists)
    details = {f"{each.source}: {each.detail}" for found in lists for each in found.missing if not _waits(each)}
    unread = ["some processes could not be read: " + "; ".join(sorted(details)[:3])] if details else []
    late = sorted({found.host for found in lists if lists_late(found.missing) and not found.ranks})
    slow = [f"{listed(late, most=6)} did not list the processes there in time: ask again"] if late else []
    return (*_waiting(lists), *slow, *unread)


def _waits(missing: Missing) -> bool:
    return missing.source == WAITING_LAUNCHERS


def _waiting(lists: Iterable[RankList]) -> list[str]:
    """Describe launchers that have started no rank, with their nodes: the job may be theirs."""
    launchers = sorted({f"on {found.host} {each.detail}" for found in lists for each in found.missing if _waits(each)})
    more = [f"{len(launchers) - _MOST_LAUNCHERS} more such launchers"] if len(launchers) > _MOST_LAUNCHERS else []
    return [*launchers[:_MOST_LAUNCHERS], *more]


def _has(found: RankList, job: str, user: str | None = None) -> bool:
    return any(is_of(rank, job, user) for rank in found.ranks) or any(was_of(gone, job, user) for gone in found.exited)


def neighbours_of(job: str | None, lists: Iterable[RankList]) -> tuple[Neighbour, ...]:
    """Return the other jobs with missing ranks: the missing ranks of `job` may be in one of them."""
    lacking = [each for each in summarise_jobs(lists) if each.absent and each.ranks]
    mine = next((each for each in lacking if each.name == job), None)
    if mine is None:
        return ()
    # Another user's job is never the other half of this one, whatever ranks it has.
    others = [each for each in lacking if each.name != job and (each.user or mine.user) == (mine.user or each.user)]
    return tuple(
        Neighbour(job=o.name, world_size=o.world_size, ranks=o.ranks, hosts=o.hosts[:8], started_at=o.started_at)
        for o in others[:_MOST_NEIGHBOURS]
        if o.world_size is not None
    )


def concerns(found: RankList, job: str | None, user: str | None = None) -> bool:
    """Does a node's list show anything of `job` (None: any) of `user` (None: any user), or did it see too little?"""
    if not all(map(_waits, found.missing)):
        return True
    if job is None:
        return bool(found.ranks or found.exited)
    return _has(found, job, user)


def nodes_without_ranks(lists: Iterable[RankList], job: str | None, user: str | None = None) -> int:
    """Count the nodes that saw all of their processes, and none of the job; a name that several have counts once."""
    with_ranks: dict[str, bool] = {}
    for found in lists:
        with_ranks[found.host] = with_ranks.get(found.host, False) or concerns(found, job, user)
    return sum(not some for some in with_ranks.values())


def ranks_of(found: RankList, job: str | None, user: str | None = None) -> str:
    """Return the ranks of `job` that a node's list names, folded."""
    here = (rank for rank in found.ranks if job is None or is_of(rank, job, user))
    return fold(rank.rank for rank in here if 0 <= rank.rank < MOST_WORLD)


def _placed(identity: Identity, host: str) -> Identity:
    return identity if identity.host is not None else identity.model_copy(update={"host": host})


def _summary(job: _Job, running: Sequence[Identity], ended: Sequence[tuple[Identity, Exited]]) -> JobSummary:
    by_attempt: Mapping[int, list[Identity]] = _grouped(running)
    newest = max(by_attempt or {identity.attempt for identity, _ in ended})
    now = by_attempt.get(newest, [])
    endings = {identity.rank: exited for identity, exited in ended if identity.attempt == newest}
    gone = [identity for identity, _ in ended if identity.attempt == newest]
    seen = {identity.rank for identity in now}
    sizes = (i.world_size for i in (*now, *gone) if i.world_size is not None)
    world_size = max((size for size in sizes if 0 < size <= MOST_WORLD), default=None)
    known = [identity for identity in sorted(now, key=attrgetter("rank")) if identity.launcher is not None]
    return JobSummary(
        name=job.name,
        user=job.user,
        owner=next((i.owner for i in (*now, *gone) if i.owner is not None), None),
        world_size=world_size,
        ranks=fold(seen),
        absent="" if world_size is None else _absent(seen, world_size),
        exited=fold(identity.rank for identity in gone if identity.rank not in seen),
        hosts=_hosts(now or gone),
        attempt=newest,
        older_attempts=tuple(
            OlderAttempt(attempt=attempt, ranks=fold(i.rank for i in left), hosts=_hosts(left))
            for attempt, left in sorted(by_attempt.items(), reverse=True)
            if attempt != newest
        ),
        state=None if now else JobState(end_of(endings.values(), world_size)),
        launcher=known[0].launcher if known else None,
        started_at=min((i.started_at for i in now if i.started_at is not None), default=None),
    )


def _grouped(identities: Sequence[Identity]) -> dict[int, list[Identity]]:
    groups: dict[int, list[Identity]] = defaultdict(list)
    for identity in identities:
        groups[identity.attempt].append(identity)
    return groups


def _hosts(identities: Iterable[Identity]) -> tuple[str, ...]:
    return tuple(sorted({identity.host for identity in identities if identity.host is not None}))


def _absent(seen: set[int], world_size: int) -> str:
    """Return 0 to `world_size` without those seen, without counting up a size that may be hostile."""
    inside = sorted(rank for rank in seen if 0 <= rank < world_size)
    edges = [-1, *inside, world_size]
    spans = [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
