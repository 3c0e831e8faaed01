"""Tells which processes are ranks, which are their children, and which only launched them.

1. A process that has a process group of PyTorch's is a rank (torch_groups.py). Until it has one, it belongs to a rank
   when its environment says so (processes.py, launchers.py). It belongs to the job of its user: what another user's
   processes say of themselves changes nothing for the ranks here.
2. Launchers are left out: by their command line, or because a process below them carries another identity
   of the same job (`srun` above `torchrun`, `torchrun` above its ranks, a script that calls `mp.spawn`). So is
   what merely waits for ourselves: under `srun bash -c 'unhang snapshot'` that shell is a task of Slurm's, too.
   Whoever has a process group is no mere launcher: Lightning's rank 0 starts the others.
3. Of the processes left with one identity the topmost that has a process group is the rank, else the topmost that has
   PyTorch, JAX or MPI loaded, else the topmost that runs Python, else the topmost: a shell that merely waits for Python
   inherits the same variables.
4. What lies below a rank are its children, whatever their environment says, but for other process groups' ranks. One
   that has the number of the rank above it in a group of the same size only works for it: asynchronous checkpoints of
   PyTorch's are written by such processes, which meet each other at a place of their own. What its parent started
   together with it may be ranks that have not come yet (siblings.py).
5. Zombies beside ranks have exited. They keep their exit status until somebody reaps them.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.find.launchers import LAUNCHERS
from agent.find.pod_of_process import place_of
from agent.find.processes import Candidate, Lister, Listing, RankLikelihood
from agent.find.servers import servers_above
from agent.find.siblings import TOGETHER_SECONDS, siblings_of
from agent.proc.procfs import ProcFs, Stat
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.wire.snapshot import Exited, Identity

_KINDS = tuple(dict.fromkeys(launcher.name for launcher in LAUNCHERS))
_MOST_CHILDREN = 256
_MOST_SHOWN = 8
_HIDDEN = (
    "/proc shows no processes of other users (it is mounted with hidepid); "
    "run as the job's user, as root, or in the group that its option `gid` names"
)
_UNREADABLE = (
    "not allowed to read the environment of {} Python processes ({}); "
    "run as the job's user, as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
)
_LOST = "the environment of processes of the same launcher cannot be read; they may be ranks ({})"
_WRONG = "the environment of {} Python processes has an invalid number of ranks ({})"


class Rank(NamedTuple):
    """A living rank: who it is, the process it is, and what it inherited."""

    identity: Identity
    stat: Stat
    environment: dict[str, str]
    children: tuple[int, ...]
    has_group: bool = False
    """Is it known to have called init_process_group?"""
    beside: tuple[int, ...] = ()
    """Processes that were started together with it, and are no ranks yet."""
    above: tuple[int, ...] = ()
    """Processes that may take requests for it and for those of its family; told with the first of these."""

    @property
    def key(self) -> tuple[int, int]:
        """The process's id and start: unique on this node."""
        return self.stat.key


class FoundRanks(NamedTuple):
    """Who is on this node at one moment."""

    ranks: tuple[Rank, ...]
    exited: tuple[Exited, ...]
    missing: tuple[Missing, ...]


def discover(listing: Listing, lister: Lister, procfs: ProcFs, host: str) -> FoundRanks:
    """Find the ranks in a listing."""
    families = listing.children()
    candidates = [each for each in _without_launchers(listing, lister) if not _is_below_rank(each, listing)]
    chosen = [top for group in _by_identity(candidates) for top in _choose(group, listing, lister)]
    others = {candidate.stat.pid for candidate in chosen if candidate.has_group}
    chosen.sort(key=lambda each: (each.identity.job or "", each.identity.rank, each.stat.pid))
    beside = siblings_of(chosen, listing, lister)
    above = servers_above(chosen, listing, lister, procfs)
    made = (_rank(candidate, families, others, procfs, host) for candidate in chosen)
    ranks = [rank._replace(beside=beside.get(rank.stat.pid, ()), above=above.get(rank.stat.pid, ())) for rank in made]
    return FoundRanks(tuple(ranks), tuple(_zombies(listing, ranks, procfs)), _missing(listing, lister, ranks))


def _without_launchers(listing: Listing, lister: Lister) -> list[Candidate]:
    """Step 2."""
    launching = {pid for pid, candidate in listing.candidates.items() if candidate.is_launcher}
    launching |= set(_waiting_for_us(listing, lister))
    for candidate in listing.candidates.values():
        for pid in listing.ancestors(candidate.stat.pid):
            above = listing.candidates.get(pid)
            if above is not None and not above.has_group and _launched(above.identity, candidate.identity):
                launching.add(pid)
    return [candidate for pid, candidate in listing.candidates.items() if pid not in launching]


def _waiting_for_us(listing: Listing, lister: Lister) -> Iterable[int]:
    """Return our own ancestors that run no Python; one that does may be a rank that asks about itself."""
    for pid in listing.ancestors(lister.own_pid):
        above = listing.candidates.get(pid)
        if above is not None and lister.runs(above.stat) is RankLikelihood.OTHER:
            yield pid


def _is_below_rank(candidate: Candidate, listing: Listing) -> bool:
    """Is this one, which has inherited the variables of who knows whom, below one that has a process group?"""
    above = (listing.candidates.get(pid) for pid in listing.ancestors(candidate.stat.pid))
    ranks = [each.identity for each in above if each is not None and each.has_group]
    return bool(ranks) and (not candidate.has_group or any(_repeats(candidate.identity, rank) for rank in ranks))


def _repeats(below: Identity, above: Identity) -> bool:
    """Has it the same place in a group of the same size? A group of one is anybody's."""
    many = below.world_size is not None and below.world_size > 1
    return many and (below.rank, below.world_size) == (above.rank, above.world_size)


def _launched(above: Identity, below: Identity) -> bool:
    """Does the identity below show that the process above only starts ranks?"""
    if above.job != below.job and above.launcher == below.launcher:
        return False
    return (above.rank, above.launcher) != (below.rank, below.launcher) and _strength(below) <= _strength(above)


def _strength(identity: Identity) -> int:
    """Return how little a launcher's variables are worth: what only a process group tells is worth most."""
    return -1 if identity.launcher is None else _KINDS.index(identity.launcher)


def _by_identity(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        identity = candidate.identity
        groups.setdefault((identity.job, identity.rank, identity.attempt), []).append(candidate)
    return list(groups.values())


def _choose(group: list[Candidate], listing: Listing, lister: Lister) -> list[Candidate]:
    """Step 3. Two unrelated tops with one identity stay two: both must be seen.

    A family may have several users: `sudo -u` and what it started. Unrelated processes of several users say nothing
    about each other. Nor do variables that a script hands down to all that it spawns, once one of them has a group.
    """
    families: dict[int, list[Candidate]] = {}
    pids = {candidate.stat.pid for candidate in group}
    for candidate in group:
        above = [pid for pid in listing.ancestors(candidate.stat.pid) if pid in pids]
        families.setdefault(above[-1] if above else candidate.stat.pid, []).append(candidate)
    chosen = [_runner(family, lister) for family in families.values()]
    beside = {c.stat.parent_pid for c in chosen if c.has_group and c.identity.launcher is None}
    chosen = [c for c in chosen if c.has_group or c.stat.parent_pid not in beside]
    with_python = {c.identity.user for c in chosen if lister.runs(c.stat) is not RankLikelihood.OTHER}
    return [c for c in chosen if c.identity.user not in with_python or lister.runs(c.stat) is not RankLikelihood.OTHER]


def _runner(family: list[Candidate], lister: Lister) -> Candidate:
    """Return the first process with a process group, else with PyTorch or its like, else with Python, else any."""
    family.sort(key=lambda candidate: (not candidate.has_group, candidate.stat.start_ticks, candidate.stat.pid))
    if family[0].has_group:
        return family[0]
    for wanted in (RankLikelihood.PARALLEL, RankLikelihood.PYTHON):
        for candidate in family:
            if lister.runs(candidate.stat) >= wanted:
                return candidate
    return family[0]


def _rank(candidate: Candidate, families: dict[int, list[int]], others: set[int], procfs: ProcFs, host: str) -> Rank:
    """Step 4."""
    stat = candidate.stat
    known: dict[str, object] = {"host": host, "pid": stat.pid, "started_at": procfs.started_at(stat)}
    place = place_of(procfs, stat.pid)
    if place is not None:
        known |= place._asdict()
    identity = candidate.identity.model_copy(update=known)
    return Rank(identity, stat, candidate.environment, tuple(_below(stat.pid, families, others)), candidate.has_group)


def _below(pid: int, families: dict[int, list[int]], others: set[int]) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < _MOST_CHILDREN:
        below = [child for child in families.pop(waiting.pop(0), []) if child not in others]
        found.extend(below)
        waiting.extend(below)
    return found[:_MOST_CHILDREN]


def _zombies(listing: Listing, ranks: list[Rank], procfs: ProcFs) -> list[Exited]:
    """Step 5. A zombie of another name or time than the ranks beside it was some helper of the launcher."""
    beside: dict[tuple[int, str], list[Rank]] = {}
    for rank in ranks:
        beside.setdefault((rank.stat.parent_pid, rank.stat.name), []).append(rank)
    ended = [stat for stat in listing.stats.values() if stat.state == "Z"]
    siblings = [(stat, _started_with(stat, beside.get((stat.parent_pid, stat.name), []), procfs)) for stat in ended]
    return [exited_from(stat, ranks, procfs) for stat, ranks in siblings if ranks]


def _started_with(stat: Stat, ranks: list[Rank], procfs: ProcFs) -> list[Rank]:
    began = procfs.started_at(stat)
    return [rank for rank in ranks if abs((rank.identity.started_at or began) - began) <= TOGETHER_SECONDS]


def exited_from(stat: Stat, beside: Iterable[Rank], procfs: ProcFs) -> Exited:
    """Describe a zombie. Its exit status is that of waitpid(2): a signal, or an exit code."""
    signal = stat.exit_status & 0x7F
    told = _status_is_told(stat.pid, procfs)
    beside = tuple(beside)
    jobs = dict.fromkeys(rank.identity.job for rank in beside if rank.identity.job is not None)
    users = {rank.identity.user for rank in beside}
    return Exited(
        pid=stat.pid,
        parent_pid=stat.parent_pid,
        name=stat.name,
        exit_code=stat.exit_status >> 8 & 0xFF if told and not signal else None,
        signal=signal or None,
        sibling_jobs=tuple(jobs),
        sibling_user=users.pop() if len(users) == 1 else None,
    )


def _status_is_told(pid: int, procfs: ProcFs) -> bool:
    """May we see exit statuses? To others the kernel says 0; `io` is under the same permission, and honest."""
    with suppress(Gone):
        try:
            procfs.read(pid, "io")
        except NotPermitted:
            return False
    return True


def _missing(listing: Listing, lister: Lister, ranks: list[Rank]) -> tuple[Missing, ...]:
    """Report Python processes that may be ranks and cannot be read, or are ranks by a number that is none.

    One that has a rank's parent may be the rank that is lacking: nothing follows from who is not found.
    """
    if 1 not in listing.stats:
        return (Missing(source="ranks", reason=Reason.NOT_PERMITTED, detail=_HIDDEN),)
    parents = {rank.stat.parent_pid for rank in ranks}

    def runs_python(pid: int) -> bool:
        return lister.runs(listing.stats[pid]) is not RankLikelihood.OTHER

    hidden = list(filter(runs_python, listing.unreadable))
    lost = [pid for pid in listing.lost if listing.stats[pid].parent_pid in parents and runs_python(pid)]
    wrong = [f"pid {pid}: {what}" for pid, what in listing.mistaken if runs_python(pid)]
    told = (
        (hidden, Reason.NOT_PERMITTED, _UNREADABLE.format(len(hidden), _pids(hidden))),
        (lost, Reason.REFUSED, _LOST.format(_pids(lost))),
        (wrong, Reason.UNREADABLE, _WRONG.format(len(wrong), "; ".join(_some(wrong, "…")))),
    )
    return tuple(Missing(source="ranks", reason=reason, detail=detail) for who, reason, detail in told if who)


def _pids(pids: list[int]) -> str:
    return f"pids {', '.join(map(str, pids[:_MOST_SHOWN]))}{' …' if len(pids) > _MOST_SHOWN else ''}"


def _some(texts: list[str], more: str) -> list[str]:
    return texts if len(texts) <= _MOST_SHOWN else [*texts[:_MOST_SHOWN], more]
