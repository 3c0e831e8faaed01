"""Where the wait of a rank leads beyond its groups: from process to process, by what the kernel shows, to the last one.

1. From a process to whoever holds the other end of what its main thread waits at, where there is one such end.
2. From one machine to another by the addresses of both ends, where ranks of the job hold them.
3. Until a rank of the job comes, whose own waits are known otherwise; a process that waits for nobody further, or that
   nobody examined; one that was passed already; or until nobody holds the other end.

Who waits for other ranks, or for work from its own process, waits for none of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from collector.align.roster import HELD, RankView
from collector.align.stacks.activity import Activity
from collector.align.stacks.awaited import shared_in_words
from collector.align.stacks.barriers import Barrier
from collector.align.stacks.tables.kernel_facts import AWAITS_ANY
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from collector.align.work.bystanders import Bystander, bystander, cannot_go_on
from collector.align.work.children import is_helper
from shared.wire.fds import Holder, OtherEnd
from shared.wire.snapshot import Child, Fds, Identity, Process, RankSnapshot

_MOST_HOPS = 8
_WAKERS = frozenset("futex epoll_wait epoll_pwait epoll_pwait2".split())
"""Calls in which other threads wake a process, whose own connections are told beside what it watches itself."""
_CHILD_WAITS = frozenset({"wait4", "waitid"})


class Leads(StrEnum):
    """To what a trail leads."""

    RANK = "rank"
    PROCESS = "process"
    """One that was examined, and from which nothing leads further."""
    UNSEEN = "unseen"
    """One that nobody examined, or an address on another machine."""
    CIRCLE = "circle"
    NOBODY = "nobody"
    """Nobody else holds the other end: nothing can come, but from the process itself."""
    PERSON = "person"


@dataclass(frozen=True)
class Hop:
    """A process that waits, and at what."""

    pid: int
    name: str
    call: str
    """The system call."""
    at: OtherEnd
    identity: Identity | None = None
    """Which rank of another job it is, or works for."""


@dataclass(frozen=True)
class Trail:
    """The way from a rank to the end of its wait."""

    rank: int
    host: str | None
    hops: tuple[Hop, ...]
    leads: Leads
    to_rank: int | None = None
    holder: Holder | None = None
    """The last process of all, where it is on the rank's node; of a circle the one before it closes."""
    end: Bystander | None = None
    """The same, where it was examined."""
    own: bool = False
    """Has the rank started that process itself?"""

    @property
    def cannot_end(self) -> bool:
        """Can nothing come that it waits for, unless somebody does something about it?"""
        held = self.end is not None and self.end.is_held
        return held or (self.leads in (Leads.NOBODY, Leads.CIRCLE, Leads.PERSON) and not self.hops[-1].at.own)

    @property
    def is_owed_elsewhere(self) -> bool:
        """Does a process owe it over a connection, a FIFO or a lock that is not the rank's own, nor left behind by one?

        A pipe is made by whoever starts the processes at both of its ends.
        """
        joins = any(hop.at.kind in ("socket", "fifo", "semaphore") for hop in self.hops)
        return self.leads in (Leads.PROCESS, Leads.UNSEEN, Leads.CIRCLE) and joins and not self.own


@dataclass(frozen=True)
class Owners:
    """Which rank of the job a process or a connection belongs to."""

    pids: Mapping[tuple[str | None, int], int]
    """By host and process id, what ranks have started included."""
    ends: Mapping[tuple[str, str], int]
    """By the ends of each connection: its own address, and whom it is connected to."""
    barriers: Mapping[Barrier, int]
    """The rank for which all others of its node wait at a barrier."""


def trail_of(view: RankView, activity: Activity, owners: Owners) -> Trail | None:
    """Return where the wait of a rank's main thread leads; None: nowhere, as far as is known."""
    process = view.process
    if process is None or view.apart is not None or view.presence in HELD or not view.looks:
        return None
    shared = activity.shared
    if shared is not None:
        threads = () if view.stacks is None else view.stacks.threads  # of its own process, one may release it
        at = OtherEnd(kind="semaphore", name=shared_in_words(shared), local=shared.memory, own=len(threads) != 1)
        hops = (Hop(process.pid, process.name, _call(process), at),)
        rank = owners.barriers.get((view.host, shared.memory))
        leads = Leads.NOBODY if shared.lone else Leads.UNSEEN if rank is None else Leads.RANK
        return None if shared.mine else Trail(view.rank, view.host, hops, leads, rank)
    if activity.waits_for_ranks or activity.doing is Doing.DEVICE:
        return None
    return _Walk(view, owners, asks=activity.asks_by_threads).on_from(process, ())


def is_stuck(end: Bystander) -> bool:
    """Does a process stand still where none waits for work, for its own peers, for a device, or for its own threads?"""
    seen = end.activity
    waits = seen.waits_for_ranks or seen.doing is Doing.DEVICE or WaitsOn.OWN_THREAD in seen.waits_on
    return end.stands_still and bool(seen.frames) and not (waits or seen.waits_for_others)


class _Walk:
    """The walk from one rank."""

    def __init__(self, view: RankView, owners: Owners, *, asks: bool) -> None:
        self._view, self._owners, self._asks = view, owners, asks
        self._others = {child.process.pid: child for child in _others(view.looks[-1])}
        self._family = frozenset(child.process.pid for child in view.looks[-1].children)
        fds = view.looks[-1].fds
        self._to_store = {s.fd for s in fds.sockets if s.to_store} if isinstance(fds, Fds) else set[int]()

    def on_from(self, process: Process, hops: tuple[Hop, ...], called: str = "") -> Trail | None:
        """Go on from a process that some hops have led to; None where nothing leads from the rank itself."""
        at = self._end(process)
        if at is None:
            here = Holder(pid=process.pid, name=called or process.name)
            return self._trail(hops, Leads.PROCESS, here) if hops else None
        child = self._others.get(process.pid)
        identity = None if child is None else child.identity
        hops = (*hops, Hop(process.pid, called or process.name, _call(process), at, identity))
        if not at.holders:
            rank = self._owners.ends.get((at.name, at.local)) if at.local else None
            return self._trail(hops, _without_holder(at) if rank is None else Leads.RANK, to_rank=rank)
        holder = min(at.holders, key=lambda each: (each.pid not in self._others, each.pid))
        rank = self._owners.pids.get((self._view.host, holder.pid))
        if rank is not None and rank != self._view.rank:
            return self._trail(hops, Leads.RANK, holder, to_rank=rank)
        if holder.pid in {hop.pid for hop in hops}:
            return self._trail(hops, Leads.CIRCLE, Holder(pid=process.pid, name=process.name))
        following = self._others.get(holder.pid)
        if following is None or len(hops) == _MOST_HOPS:
            return self._trail(hops, Leads.UNSEEN, holder)
        return self.on_from(following.process, hops, holder.name)

    def _end(self, process: Process) -> OtherEnd | None:
        """The one end that a process waits at. Of any of several it may be, if only one leads out of the job."""
        if cannot_go_on(process):
            return None
        if _call(process) in _CHILD_WAITS:
            below = [each.process for each in self._others.values() if each.process.parent_pid == process.pid]
            children = tuple(Holder(pid=each.pid, name=each.name) for each in below if not is_helper(each))
            child = next((at for at in process.awaits if at.holders), OtherEnd(kind="child", holders=children))
            return child if len(child.holders) == 1 else None
        told = [at for at in process.awaits if at.kind != "clients"]
        asks = self._asks and process is self._view.process
        if _call(process) in _WAKERS and process.syscall is not None and not asks:
            told = [at for at in told if at.fd in process.syscall.fds]
        if process is self._view.process:
            told = [at for at in told if at.fd not in self._to_store]
        ends = list({tuple(holder.pid for holder in at.holders) or at.name: at for at in told}.values())
        if _call(process) in AWAITS_ANY or asks:
            ends = [at for at in ends if at.holders or not at.own]
        strange = [at for at in ends if not all(self._is_ours(holder) for holder in at.holders) or self._is_far(at)]
        found = ends if len(ends) == 1 else strange
        if asks and len(found) > 1:  # Ray's own processes are connected to every worker
            found = [at for at in found if any(holder.is_actor for holder in at.holders)]
        return found[0] if len(found) == 1 else None

    def _is_ours(self, holder: Holder) -> bool:
        return (self._view.host, holder.pid) in self._owners.pids

    def _is_far(self, at: OtherEnd) -> bool:
        """Does nobody hold it here, nor a rank of the job that was asked?"""
        return not at.holders and (at.name, at.local) not in self._owners.ends

    def _trail(
        self, hops: tuple[Hop, ...], leads: Leads, holder: Holder | None = None, *, to_rank: int | None = None
    ) -> Trail:
        child = None if holder is None or leads is Leads.RANK else self._others.get(holder.pid)
        end = None if child is None else bystander(self._view, child, _others)
        own = holder is not None and holder.pid in self._family
        return Trail(self._view.rank, self._view.host, hops, leads, to_rank, holder, end, own=own)


def _others(look: RankSnapshot) -> tuple[Child, ...]:
    return (*look.children, *look.followed)


def _call(process: Process) -> str:
    return "" if process.syscall is None else process.syscall.name


def _without_holder(at: OtherEnd) -> Leads:
    if at.kind == "terminal":
        return Leads.PERSON
    return Leads.UNSEEN if at.kind in ("socket", "child") and not at.own else Leads.NOBODY
