"""Ranks that wait for a lock on a file, by polling or in the kernel: who holds it, and are they at work?

1. The ranks that wait are put together by lock, for one file may hold up many: on its own node, or on all.
2. A lock that nobody holds anymore holds them forever: what a killed build has left behind.
3. One that a rank of the job holds is waited for as that rank is. While it is at work, a build takes its time.
4. Of any other holder, and of one on another machine, nothing is known but how long it takes.
5. Where others wait in communication for a rank that waits for a lock, that rank waits itself, for the one that holds
   the lock. Where nobody can see who that is, because it may be on another machine, nobody is blamed.
6. A rank that sleeps, wakes and sleeps again while another has locked a file of its own may well poll for that lock,
   though no frame shows it. Nobody is blamed where that other waits in communication: the two may hold up each other.
7. Who keeps a lock while waiting for others is to blame where it waits for those who want the lock: a circle. Where it
   waits for somebody else, that one holds up both; where nothing tells for whom, and somebody else is late, so may be.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collector.align.observations import Observations
from collector.align.progress import JobMotion, Motion
from collector.align.roster import ByRank, RankView, Roster
from collector.align.stacks.activity import Activity
from collector.align.stacks.lock_files import holder_in_words, is_contended, lock_in_words, lock_of, name_of_lock
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from collector.judge.certainty import Support, how_sure, unproven
from collector.judge.fault import Fault, first_edge
from collector.judge.records.wait_graph import WaitGraph
from shared.answer.diagnosis import ChainLink, FdEvidence
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.plural import either, ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.wire.snapshot import Fds, PolledLock, RankSnapshot


@dataclass(frozen=True)
class _Wait:
    """Ranks that wait for one lock."""

    lock: PolledLock
    ranks: tuple[int, ...]
    holders: tuple[int, ...]
    """Those of the job that hold it, or whose children do."""
    seen: bool = True
    """Does a stack or the kernel show that they wait?"""

    @property
    def text(self) -> str:
        """Who waits for what; the holder by its rank where it has one."""
        return f"{ranks_in_words(self.ranks)} {self.waits}"

    @property
    def waits(self) -> str:
        """The same, without who waits."""
        return f"{self.verb} for {self.held if self.holders else lock_in_words(self.lock)}"

    @property
    def verb(self) -> str:
        """Its verb: what no stack shows may be so."""
        return either(self.ranks, "waits", "wait") if self.seen else "may wait"

    @property
    def held(self) -> str:
        """Which lock which ranks hold."""
        return f"{name_of_lock(self.lock)}, which {ranks_with(self.holders, 'holds', 'hold')}"


@costs_itself(lambda observations: [])
def faults_by_lock_files(observations: Observations) -> list[Fault]:
    """Return one fault for each lock that ranks wait for; none for one whose holder is at work."""
    return [_fault(wait, observations) for wait in _waits(observations) if not _at_work(wait, observations.motion)]


@costs_itself(lambda observations: "")
def builds(observations: Observations) -> str:
    """Say who is at work while others wait for the lock that it holds; empty where nobody is."""
    busy = [wait for wait in _waits(observations) if _at_work(wait, observations.motion)]
    return f"{busy[0].text} while {either(busy[0].holders, 'it is', 'they are')} at work" if busy else ""


@costs_itself(lambda fault, observations: fault)
def with_holders(fault: Fault, observations: Observations) -> Fault:  # 5
    """Blame, instead of ranks that wait for a lock, the ranks that hold it; nobody, where that cannot be known."""
    if fault.kind is not Kind.RANK_NOT_JOINED:
        return fault
    held_up = _chained(set(fault.culprits), _waits(observations))
    waits = [wait for wait in held_up if wait.holders]
    if waits:
        return _on_holders(fault, waits, observations)
    unseen = [wait for wait in held_up if wait.lock.remote and not wait.lock.holders]
    if unseen:
        return _on_nobody(fault, unseen, "; ".join(wait.text for wait in unseen), observations.roster)
    if outside := [wait for wait in held_up if wait.lock.holders and wait.lock.path]:
        return replace(fault, chain=_to_process(fault, outside))
    guessed = list(_guessed(fault, observations))  # 6
    may_wait = "; ".join(
        f"{wait.text} while {either(wait.holders, 'it waits', 'they wait')} in communication" for wait in guessed
    )
    return _on_nobody(fault, guessed, may_wait, observations.roster) if guessed else fault


def _chained(ranks: set[int], waits: list[_Wait]) -> list[_Wait]:
    """Return the locks that these ranks wait for, and those that the holders of them wait for in turn."""
    found: list[_Wait] = []
    while new := [wait for wait in waits if wait not in found and ranks & {*wait.ranks}]:
        found += new
        ranks = ranks | {holder for wait in new for holder in wait.holders}
    return found


def may_poll_for_lock(view: RankView, activity: Activity) -> bool:
    """Does it sleep, and nothing tells what for, while others have locked a file that it has open?"""
    return _is_untold(activity) and bool(view.looks) and is_contended(view.looks[-1].polled_lock)


def _is_untold(activity: Activity) -> bool:
    plain = activity.doing is Doing.OUTSIDE and activity.cause in (Cause.USER_CODE, Cause.UNKNOWN)
    return plain and not activity.waits_on


def _on_holders(fault: Fault, waits: list[_Wait], observations: Observations) -> Fault:
    waiting = {rank for wait in waits for rank in wait.ranks}
    others = set(fault.culprits) - waiting
    graph = WaitGraph(observations.edges)
    blamed = {rank for wait in waits for rank in _blamed(wait, graph, observations, alone=not others)}
    blamed = blamed - waiting or blamed  # of a circle of locks alone, all who are in it
    culprits = others | blamed
    in_group = bool(culprits) and all(_waits_in_group(rank, observations) for rank in culprits)
    return replace(
        fault,
        cause=Cause.COMMUNICATION if in_group else fault.cause,
        culprits=tuple(sorted(culprits)),
        victims=tuple(sorted({*fault.victims, *waiting} - culprits)),
        certainty=unproven(fault.certainty, Support.LOCK_HOLDER),
        said="; ".join(_said(wait, observations) for wait in waits) if blamed else "",
        evidence=(*fault.evidence, *(_evidence(wait, observations.roster) for wait in waits)),
        lock=waits[0].lock if blamed else None,
        chain=_chain(waits, observations) if blamed else (),
    )


def _blamed(wait: _Wait, graph: WaitGraph, observations: Observations, *, alone: bool) -> Iterator[int]:  # 7
    for holder in wait.holders:
        held_up_by = graph.waited_for([holder])
        if not observations.may_wait(holder) or held_up_by & {*wait.ranks}:
            yield holder
        elif held_up_by:
            yield from held_up_by - {edge.waiter for edge in observations.edges}
        elif alone:
            yield holder


def _on_nobody(fault: Fault, waits: list[_Wait], said: str, roster: Roster) -> Fault:
    waiting = {rank for wait in waits for rank in wait.ranks}
    return replace(
        fault,
        culprits=tuple(sorted(set(fault.culprits) - waiting)),
        certainty=how_sure(fault.kind, Support.LOCK),
        cause=Cause.FILESYSTEM,
        said=f"{ranks_with(fault.victims, 'waits', 'wait')} for {ranks_in_words(fault.culprits)}; {said}",
        evidence=(*fault.evidence, *(_evidence(wait, roster) for wait in waits)),
        lock=waits[0].lock,
    )


def _guessed(fault: Fault, observations: Observations) -> Iterator[_Wait]:
    for rank in fault.culprits:
        view, activity = observations.roster.ranks[rank], observations.activities.get(rank)
        polls = activity is not None and _is_untold(activity) and rank in observations.motion.woken
        lock = _contended(view, observations.roster) if polls else None
        holders = () if lock is None else _holders(lock, [rank], observations.roster)
        if lock is not None and holders and all(map(observations.may_wait, holders)):
            yield _Wait(lock, (rank,), holders, seen=False)


def _contended(view: RankView, roster: Roster) -> PolledLock | None:
    """Return the lock that others have on a file of its own: as its agent sees, or those of other machines do."""
    look = view.looks[-1]
    if is_contended(look.polled_lock) or not isinstance(look.fds, Fds):
        return look.polled_lock
    shared = tuple(f"{mount.point.rstrip('/')}/" for mount in look.fds.mounts if mount.remote)
    paths = (path for path in look.fds.files.values() if path.startswith(shared))
    locks = (PolledLock(path=path, remote=True, on_open_file=True) for path in paths)
    return next((lock for lock in locks if _holders(lock, [view.rank], roster)), None)


def _at_work(wait: _Wait, motion: JobMotion) -> bool:  # 3
    return any(motion.by_rank.get(rank) is Motion.BUSY for rank in wait.holders)


def _waits(observations: Observations) -> list[_Wait]:  # 1
    found: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    locks: dict[tuple[str | None, str | None], PolledLock] = {}
    for rank, activity in observations.activities.items():
        view = observations.roster.ranks[rank]
        if WaitsOn.LOCK_FILE in activity.waits_on and not view.gone:
            lock = lock_of(view.looks[-1]) or PolledLock()
            key = lock.path, None if lock.remote or lock.path is None else view.host
            found[key].append(rank)
            locks[key] = max(locks.get(key, lock), lock, key=lambda one: len(one.holders))
    return [
        _Wait(locks[key], tuple(ranks), _holders(locks[key], ranks, observations.roster))
        for key, ranks in found.items()
    ]


def _holders(lock: PolledLock, ranks: list[int], roster: Roster) -> tuple[int, ...]:
    pids = {holder.pid for holder in lock.holders}
    hosts = {roster.ranks[rank].host for rank in ranks}
    return tuple(
        view.rank
        for view in roster.present()
        if view.rank not in ranks and view.looks and _holds(view, lock, pids if view.host in hosts else set(), hosts)
    )


def _holds(view: RankView, lock: PolledLock, pids: set[int], hosts: set[str | None]) -> bool:
    """Does it, or a child, by the process that holds the lock, or by what it has locked itself on another machine?"""
    if _own(view.looks[-1]) & pids:
        return True
    fds = view.looks[-1].fds
    elsewhere = lock.remote and lock.path is not None and view.host not in hosts
    return elsewhere and isinstance(fds, Fds) and any(one.locked and one.path == lock.path for one in fds.notable_files)


def _own(look: RankSnapshot) -> set[int | None]:
    return {look.identity.pid, *(child.process.pid for child in look.children)}


def _fault(wait: _Wait, observations: Observations) -> Fault:
    known = wait.lock.abandoned or bool(wait.holders)
    kind = Kind.RANK_NOT_JOINED if wait.holders else Kind.STUCK_TOGETHER
    return Fault(
        kind=kind,
        culprits=wait.holders,
        victims=wait.ranks,
        certainty=how_sure(kind, Support.LOCK_HOLDER if known else Support.LOCK),
        cause=None if wait.holders else _cause(wait, observations.activities),
        said=_said(wait, observations),
        evidence=(_evidence(wait, observations.roster),),
        lock=wait.lock,
        chain=_chain([wait], observations),
    )


def _cause(wait: _Wait, activities: ByRank[Activity]) -> Cause:
    return activities[wait.ranks[0]].cause


def _said(wait: _Wait, observations: Observations) -> str:
    held = _holding(wait, observations)
    return wait.text if held is None else f"{wait.text} while {either(wait.holders, 'it', 'they')} {held.does}"


def _chain(waits: Sequence[_Wait], observations: Observations) -> tuple[ChainLink, ...]:
    """Who waits for which lock, and what its holders do."""
    own = [ChainLink(who=ranks_in_words(wait.ranks), does=wait.waits) for wait in waits]
    held = _holding(waits[-1], observations)
    return tuple(own) if held is None else (*own, held)


def _to_process(fault: Fault, waits: Sequence[_Wait]) -> tuple[ChainLink, ...]:
    """Who waits in the group, then for which lock, which a process outside of the job holds."""
    first = fault.waiting_for(waits[0].ranks[0], besides=waits[0].ranks)
    own = [
        ChainLink(who=ranks_in_words(each.ranks), does=f"{each.verb} for {name_of_lock(each.lock)}") for each in waits
    ]
    return (*first, *own, ChainLink(who=f"pid {holder_in_words(waits[-1].lock.holders[0])}", does="holds it"))


def _holding(wait: _Wait, observations: Observations) -> ChainLink | None:
    """Return what the ranks do that hold a lock; None: no rank is known to, or what it does was not read."""
    seen = next((observations.activities[rank] for rank in wait.holders if rank in observations.activities), None)
    who = ranks_in_words(wait.holders)
    if seen is None:
        return None
    if not any(_waits_in_group(rank, observations) for rank in wait.holders):
        at = f" at {seen.user}" if seen.user is not None else ""
        return ChainLink(who=who, does=f"{either(wait.holders, 'is', 'are')} {seen.label}{at}")
    edge = first_edge(edge for edge in observations.edges if edge.waiter in wait.holders)
    op = seen.op or (edge.signature.op if edge is not None else "communication")
    waits = f"{either(wait.holders, 'waits', 'wait')} in {op}"
    held_up_by = WaitGraph(observations.edges).waited_for(wait.holders)
    if held_up_by and not held_up_by & {*wait.ranks}:
        return ChainLink(who=who, does=f"{waits} for {ranks_in_words(sorted(held_up_by))}")
    return ChainLink(who=who, does=f"{waits}: a deadlock between the lock and the group", closes=True)


def _waits_in_group(rank: int, observations: Observations) -> bool:
    """Does it wait for other ranks: by its stack, or for its device, of which the record tells what it lacks?"""
    seen = observations.activities.get(rank)
    if seen is None or seen.waits_for_ranks:
        return seen is not None
    return seen.doing is Doing.DEVICE and any(edge.waiter == rank for edge in observations.edges)


def _evidence(wait: _Wait, roster: Roster) -> FdEvidence:
    view = roster.ranks[wait.ranks[0]]
    pid = None if view.identity is None else view.identity.pid
    return FdEvidence(ranks=fold(wait.ranks), text=wait.text, pid=pid, target=wait.lock.path)
