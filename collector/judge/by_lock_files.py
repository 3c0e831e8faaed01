"""Ranks that poll a lock file while nobody waits in communication: who holds it, and are they at work?

1. The ranks that poll are put together by lock, for one file may hold up many: on its own node, or on all.
2. A lock that nobody holds anymore holds them forever: what a killed build has left behind.
3. One that a rank of the job holds is waited for as that rank is. While it is at work, a build takes its time.
4. Of any other holder, and of one on another machine, nothing is known but how long it takes.
5. Where others wait in communication for a rank that polls, that rank waits itself, for the one that holds the lock.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.stacks.lock_files import lock_in_words
from collector.align.stacks.patterns import WaitsOn
from collector.judge.certainty import Support, how_sure, unproven
from collector.judge.fault import Fault
from shared.answer.diagnosis import FdEvidence
from shared.answer.words import Cause, Kind
from shared.plural import either, ranks_with
from shared.rank_sets import fold
from shared.wire.snapshot import PolledLock, RankSnapshot


@dataclass(frozen=True)
class _Wait:
    """Ranks that poll one lock."""

    lock: PolledLock
    ranks: tuple[int, ...]
    holders: tuple[int, ...]
    """Those of the job that hold it, or whose children do."""

    @property
    def text(self) -> str:
        """Who waits for what; the holder by its rank where it has one."""
        waits = ranks_with(self.ranks, "waits", "wait")
        if not self.holders:
            return f"{waits} for {lock_in_words(self.lock)}"
        held = ranks_with(self.holders, "holds", "hold")
        return f"{waits} for the lock file {self.lock.path}, which {held}"


def faults_by_lock_files(observations: Observations) -> list[Fault]:
    """Return one fault for each lock file that ranks wait for; none for one whose holder is at work."""
    return [_fault(wait, observations) for wait in _waits(observations) if not _at_work(wait, observations)]


def builds(observations: Observations) -> str:
    """Say who is at work while others wait for the lock file that it holds; empty where nobody is."""
    busy = [wait for wait in _waits(observations) if _at_work(wait, observations)]
    return f"{busy[0].text} while {either(busy[0].holders, 'it is', 'they are')} at work" if busy else ""


def with_holders(fault: Fault, observations: Observations) -> Fault:  # 5
    """Blame, instead of ranks that poll a lock file, the ranks that hold it."""
    waits = [wait for wait in _waits(observations) if wait.holders and set(wait.ranks) & set(fault.culprits)]
    if fault.kind is not Kind.RANK_NOT_JOINED or not waits:
        return fault
    polling = {rank for wait in waits for rank in wait.ranks}
    culprits = (set(fault.culprits) - polling) | {rank for wait in waits for rank in wait.holders}
    return replace(
        fault,
        culprits=tuple(sorted(culprits)),
        victims=tuple(sorted({*fault.victims, *polling} - culprits)),
        certainty=unproven(fault.certainty),
        said="; ".join(_said(wait, observations) for wait in waits),
        evidence=(*fault.evidence, *(_evidence(wait, observations) for wait in waits)),
        lock=waits[0].lock,
    )


def _at_work(wait: _Wait, observations: Observations) -> bool:  # 3
    return any(observations.motion.by_rank.get(rank) is Motion.BUSY for rank in wait.holders)


def _waits(observations: Observations) -> list[_Wait]:  # 1
    found: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    locks: dict[tuple[str | None, str | None], PolledLock] = {}
    for rank, activity in observations.activities.items():
        view = observations.roster.ranks[rank]
        if WaitsOn.LOCK_FILE in activity.waits_on and not view.gone:
            lock = view.looks[-1].polled_lock or PolledLock()
            key = lock.path, None if lock.remote or lock.path is None else view.host
            found[key].append(rank)
            locks[key] = max(locks.get(key, lock), lock, key=lambda one: len(one.holders))
    return [_Wait(locks[key], tuple(ranks), _holders(locks[key], ranks, observations)) for key, ranks in found.items()]


def _holders(lock: PolledLock, ranks: list[int], observations: Observations) -> tuple[int, ...]:
    pids = {holder.pid for holder in lock.holders}
    hosts = {observations.roster.ranks[rank].host for rank in ranks}
    return tuple(
        view.rank
        for view in observations.roster.present()
        if view.rank not in ranks and view.host in hosts and view.looks and _own(view.looks[-1]) & pids
    )


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
        cause=None if wait.holders else _cause(wait, observations),
        said=_said(wait, observations),
        evidence=(_evidence(wait, observations),),
        lock=wait.lock,
    )


def _cause(wait: _Wait, observations: Observations) -> Cause:
    return observations.activities[wait.ranks[0]].cause


def _said(wait: _Wait, observations: Observations) -> str:
    seen = next((observations.activities[rank] for rank in wait.holders if rank in observations.activities), None)
    if seen is None:
        return wait.text
    if seen.waits_for_ranks:
        waits = f"{either(wait.holders, 'it waits', 'they wait')} in {seen.op or 'communication'}"
        return f"{wait.text} while {waits}: a deadlock between the lock and the group"
    at = f" at {seen.user}" if seen.user is not None else ""
    return f"{wait.text} while {either(wait.holders, 'it is', 'they are')} {seen.label}{at}"


def _evidence(wait: _Wait, observations: Observations) -> FdEvidence:
    view = observations.roster.ranks[wait.ranks[0]]
    pid = None if view.identity is None else view.identity.pid
    return FdEvidence(ranks=fold(wait.ranks), text=wait.text, pid=pid, target=wait.lock.path)
