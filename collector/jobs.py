"""The jobs that the agents know, put together from their lists of ranks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from pydantic import Field

from collector.diagnose.expected import Neighbour
from shared.commands import listed
from shared.errors import InvalidInput, NotFound, quoted
from shared.missing import WAITING_LAUNCHERS, Missing
from shared.ranks import FoldedRanks, fold
from shared.snapshot import Exited, Identity, RankList
from shared.value import Value


class OlderAttempt(Value):
    """Ranks that are left over from before the launcher's last restart."""

    attempt: int
    ranks: FoldedRanks
    hosts: tuple[str, ...] = ()


class JobSummary(Value):
    """One job as the agents see it now. The counts are of its newest attempt."""

    name: str = Field(description="What to ask for, e.g. `slurm-4242`.", examples=["slurm-4242"])
    world_size: int | None = Field(default=None, description="How many ranks there should be, as the ranks say.")
    ranks: FoldedRanks = Field(default="", description="Ranks that run.")
    absent: FoldedRanks = Field(default="", description="Ranks that no agent sees, where the world size is known.")
    exited: FoldedRanks = Field(default="", description="Ranks that ran and are known to have ended.")
    hosts: tuple[str, ...] = ()
    attempt: int = Field(default=0, description="The launcher's restart count.")
    older_attempts: tuple[OlderAttempt, ...] = Field(default=(), description="Left-over processes, newest first.")
    launcher: str | None = None
    started_at: float | None = Field(default=None, description="Start of its oldest running rank, Unix seconds.")


MOST_WORLD = 1_048_576
"""A larger world size, or a rank beyond it, is what a process made up, and is left out of the listing."""


_MOST_NEIGHBOURS = 64
_MOST_LAUNCHERS = 3


def summarise_jobs(lists: Iterable[RankList]) -> tuple[JobSummary, ...]:
    """Return every named job that the lists tell of, by name; the order of the lists changes nothing."""
    running: dict[str, list[Identity]] = defaultdict(list)
    ended: dict[str, list[Identity]] = defaultdict(list)
    for found in lists:
        for identity in found.ranks:
            if identity.job is not None and 0 <= identity.rank < MOST_WORLD:
                running[identity.job].append(_placed(identity, found.host))
        for was in (gone.identity for gone in found.exited):
            if was is not None and was.job is not None and 0 <= was.rank < MOST_WORLD:
                ended[was.job].append(_placed(was, found.host))
    names = sorted(running.keys() | ended.keys())
    return tuple(_summary(name, running.get(name, []), ended.get(name, [])) for name in names)


def choose_job(job: str | None, lists: Iterable[RankList], *, some_silent: bool) -> str | None:
    """Return the job to look at: the one asked for, or the only one there is.

    Raises NotFound where no agent knows it and none is silent that might (`some_silent`), and InvalidInput where
    several are there and none was asked for. None means: ranks that name no job, or nothing at all was answered.
    """
    lists = tuple(lists)
    jobs = summarise_jobs(lists)
    if job is not None:
        if some_silent or any(_has(found, job) for found in lists):
            return job
        there = listed([summary.name for summary in jobs]) or "none"
        advice = "; ".join((f"the jobs that are there: {there}", *_waiting(lists)))
        raise NotFound(f"no agent knows a job {quoted(job)}", advice=advice)
    running = [summary.name for summary in jobs if summary.ranks] or [summary.name for summary in jobs]
    if len(running) > 1:
        raise InvalidInput(f"{len(running)} jobs are there: {listed(running)}", advice="say which of them to look at")
    if running or some_silent or any(found.ranks for found in lists):
        return running[0] if running else None
    raise NotFound("no ranks were found", advice=_why_no_ranks(lists))


def _why_no_ranks(lists: Sequence[RankList]) -> str:
    details = {f"{each.source}: {each.detail}" for found in lists for each in found.missing if not _waits(each)}
    waiting = _waiting(lists)
    if details or waiting:
        unread = ["some processes could not be read: " + "; ".join(sorted(details)[:3])] if details else []
        return "; ".join((*waiting, *unread))
    return "a rank is a process with RANK, SLURM_PROCID or OMPI_COMM_WORLD_RANK set; is the job running here?"


def _waits(missing: Missing) -> bool:
    return missing.source == WAITING_LAUNCHERS


def _waiting(lists: Iterable[RankList]) -> list[str]:
    """Tell of launchers that have started no rank, with their nodes: the job may be theirs."""
    told = sorted({f"on {found.host} {each.detail}" for found in lists for each in found.missing if _waits(each)})
    more = [f"{len(told) - _MOST_LAUNCHERS} more such launchers"] if len(told) > _MOST_LAUNCHERS else []
    return [*told[:_MOST_LAUNCHERS], *more]


def _has(found: RankList, job: str) -> bool:
    return any(rank.job == job for rank in found.ranks) or any(_was_of(gone, job) for gone in found.exited)


def neighbours_of(job: str | None, lists: Iterable[RankList]) -> tuple[Neighbour, ...]:
    """Return the other jobs that lack ranks, for whoever asks where the ranks are that `job` lacks."""
    lacking = [each for each in summarise_jobs(lists) if each.absent and each.ranks]
    if job is None or not any(each.name == job for each in lacking):
        return ()
    others = [each for each in lacking if each.name != job][:_MOST_NEIGHBOURS]
    return tuple(
        Neighbour(job=o.name, world_size=o.world_size, ranks=o.ranks, hosts=o.hosts[:8], started_at=o.started_at)
        for o in others
        if o.world_size is not None
    )


def concerns(found: RankList, job: str | None) -> bool:
    """Tell whether a node's list has anything on `job` (None: on any), or cannot say because it saw too little."""
    if not all(map(_waits, found.missing)):
        return True
    if job is None:
        return bool(found.ranks or found.exited)
    return _has(found, job)


def ranks_of(found: RankList, job: str | None) -> str:
    """Return the ranks of `job` that a node's list names, folded."""
    here = (rank for rank in found.ranks if job is None or rank.job == job)
    return fold(rank.rank for rank in here if 0 <= rank.rank < MOST_WORLD)


def _was_of(gone: Exited, job: str) -> bool:
    return job in gone.sibling_jobs or (gone.identity is not None and gone.identity.job == job)


def _placed(identity: Identity, host: str) -> Identity:
    return identity if identity.host is not None else identity.model_copy(update={"host": host})


def _summary(name: str, running: Sequence[Identity], ended: Sequence[Identity]) -> JobSummary:
    by_attempt: Mapping[int, list[Identity]] = _grouped(running)
    newest = max(by_attempt or _grouped(ended))
    now = by_attempt.get(newest, [])
    gone = [identity for identity in ended if identity.attempt == newest]
    seen = {identity.rank for identity in now}
    sizes = (i.world_size for i in (*now, *gone) if i.world_size is not None)
    world_size = max((size for size in sizes if 0 < size <= MOST_WORLD), default=None)
    known = [identity for identity in sorted(now, key=attrgetter("rank")) if identity.launcher is not None]
    return JobSummary(
        name=name,
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
