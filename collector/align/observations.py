"""What the steps hand on: everything that steps 1 to 3 and 8 have found out, in which the later ones find faults."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from collector.align.expected import FoundHung
from collector.align.groups.device_queues import unfinished
from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge
from collector.align.logs.attributed_lines import NOTHING_HEARD, Statements
from collector.align.node_facts import NodeFacts, concerns, pids_of
from collector.align.progress import JobMotion, Motion
from collector.align.roster import ByRank, RankView, Roster
from collector.align.stacks.activity import Activity
from collector.align.stacks.barriers import last_to_come
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from collector.align.wait_states import MAY_WAIT, WaitState, wait_state
from collector.align.work.bystanders import Bystander, siblings_of
from collector.align.work.servers import Family, families_of
from collector.align.work.trails import Owners, Trail, trail_of
from collector.align.work.values import Ends, Work
from collector.align.work.work import works_of
from shared.answer.words import WorkMeans
from shared.wire.devices import Gpu
from shared.wire.fds import OtherEnd
from shared.wire.kernel_events import KernelEvent
from shared.wire.snapshot import Fds
from shared.wire.trace import Trace

NO_FACTS = NodeFacts("")


@dataclass(frozen=True)
class Observations:
    """Everything that steps 1 to 3 and 8 have found out, as later steps need it."""

    roster: Roster
    motion: JobMotion
    groups: tuple[GroupView, ...]
    traces: ByRank[Trace]
    activities: ByRank[Activity]
    edges: tuple[Edge, ...] = field(default=())
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    """What each node's kernel log and GPUs tell, by host."""
    statements: Statements = NOTHING_HEARD
    learnt_pause: float | None = None
    """How long jobs of this name usually pause, in seconds, as was learnt from earlier runs; None: nothing was."""
    faulty_hosts: frozenset[str] = frozenset()
    """Nodes on which jobs have hung before for causes that hardware can have."""
    found_hung: FoundHung | None = None
    """What it was found hung with before ranks of it exited."""

    def overwritten(self, ranks: Iterable[int]) -> bool:
        """May records of these ranks be gone that would tell: the counterpart of a send, what came before a call?"""
        return any(self.traces[rank].truncated for rank in ranks if rank in self.traces)

    def moves_unseen(self, rank: int) -> bool:
        """Was it read too late to tell whether it moves, as on a busy machine, or once alone while it ran, or a call
        of another's in it?
        """
        view, seen = self.roster.ranks[rank], self.activities.get(rank)
        runs = (view.process is not None and view.process.state == "R") or (seen is not None and seen.runs_call)
        ran_once = self.motion.seconds == 0 and runs
        return (view.was_late or ran_once) and self.motion.by_rank.get(rank) is Motion.UNKNOWN

    @property
    def late_in_only_look(self) -> tuple[int, ...]:
        """The ranks that were not read in time, where no rank was looked at twice."""
        once = self.roster.live and self.motion.seconds == 0
        return tuple(view.rank for view in self.roster.present() if once and view.was_late)

    @cached_property
    def recorded(self) -> frozenset[int]:
        """Ranks with a flight record. Of others no more may be known than what is pending, and how far they are."""
        return frozenset(rank for rank, trace in self.traces.items() if trace.is_recorded)

    def works_for_another(self, rank: int) -> bool:
        """Has a thread of it moved that runs another rank's call? Such a job need not issue anything for hours."""
        activity = self.activities.get(rank)
        return activity is not None and activity.runs_call and rank in self.motion.woken

    def works(self, rank: int) -> tuple[Work, ...]:
        """Return what a rank was seen at work with, most telling first; empty: with nothing, or it waits for others."""
        activity = self.activities.get(rank)
        works = () if activity is None else works_of(self.roster.ranks[rank], activity, self._connections.keys())
        return tuple(work for work in works if work.means is not WorkMeans.CPU) if self.may_spin(rank) else works

    def may_spin(self, rank: int) -> bool:
        """Has it an operation pending, and is it in C that nobody has read? It may await its device there."""
        return self.state(rank) is WaitState.UNKNOWN and rank in self.traces and bool(unfinished(self.traces[rank]))

    @cached_property
    def siblings(self) -> tuple[Bystander, ...]:
        """Those that were started together with ranks and have not come, by process id."""
        found = (sibling for view in self.roster.present() for sibling in siblings_of(view))
        return tuple(sorted(found, key=lambda each: (each.beside, each.process.pid)))

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The servers above ranks, by the first of these."""
        found = (family for view in self.roster.present() for family in families_of(view))
        return tuple(sorted(found, key=lambda each: each.rank))

    def trail(self, rank: int) -> Trail | None:
        """Return where the wait of a rank leads beyond its groups; None: nowhere, as far as is known."""
        activity = self.activities.get(rank)
        return None if activity is None else trail_of(self.roster.ranks[rank], activity, self._owners)

    def leads_out(self, rank: int, at: OtherEnd) -> bool:
        """Is it a connection to somebody who is no rank of the job?"""
        host = self.roster.ranks[rank].host
        ours = all((host, holder.pid) in self._owners.pids for holder in at.holders)
        ours = ours if at.holders else (at.name, at.local) in self._connections
        return at.kind == "socket" and not at.own and not ours

    @cached_property
    def _owners(self) -> Owners:
        views = self.roster.ranks.values()
        pids = {(view.host, pid): view.rank for view in views for pid in pids_of(view)}
        return Owners(pids, self._connections, last_to_come(self.activities, self.roster.ranks))

    @cached_property
    def _connections(self) -> dict[Ends, int]:
        """Which rank has each connection of the job's, by its ends, as far as somebody looked."""
        newest = ((view.rank, view.looks[-1].fds) for view in self.roster.present() if view.looks)
        every = ((rank, socket) for rank, fds in newest if isinstance(fds, Fds) for socket in fds.sockets)
        return {(socket.local, socket.remote): rank for rank, socket in every}

    @property
    def usual_pause(self) -> float | None:
        """The longest pause known of the job, in seconds: by its records, its agents' beats, or earlier runs."""
        looks = (view.looks[-1] for view in self.roster.present() if view.looks)
        seen = (look.marks.longest_pause_seconds for look in looks if look.marks is not None)
        told = (self.motion.usual_gap_seconds, self.learnt_pause, *seen)
        return max((pause for pause in told if pause is not None), default=None)

    def state(self, rank: int) -> WaitState:
        """Return what the rank is to the others; what is no rank of the job is not known."""
        return self._states.get(rank, WaitState.UNKNOWN)

    def may_wait(self, rank: int) -> bool:
        """Does it wait for others, for all that is seen? A waiter may spin or poll: its CPU time is no progress."""
        return self.state(rank) in MAY_WAIT

    @cached_property
    def _states(self) -> dict[int, WaitState]:
        return {rank: self._state(view) for rank, view in self.roster.ranks.items()}

    def _state(self, view: RankView) -> WaitState:
        """Who waits for a process outside the job is in no call of C's for other ranks, whatever that call is."""
        state = wait_state(view, self.activities.get(view.rank))
        trail = self.trail(view.rank) if state is WaitState.UNKNOWN else None
        out = trail is not None and trail.is_owed_elsewhere and trail.holder is not None
        return WaitState.ELSEWHERE if out else state

    def stall(self, waiters: Iterable[int]) -> float:
        """Seconds for which those of `waiters` that do not poll a store have stood still.

        A job of remote calls may have had its last collective at its start: no record tells of these.
        """
        waiting = [rank for rank in waiters if self.doing(rank) is not Doing.STORE]
        recorded = not waiting or not all(
            self._waits_on(rank, WaitsOn.UNRECORDED) or self.awaits_device_alone(rank) for rank in waiting
        )
        return self.motion.stall(waiting, recorded=recorded)

    def awaits_device_alone(self, rank: int) -> bool:
        """Does it wait for its device, though no operation on record is in flight there?

        The device computes, or it replays a CUDA graph: of collectives in that no record and no counter tells.
        """
        return self.doing(rank) is Doing.DEVICE and rank in self.traces and not unfinished(self.traces[rank])

    def wait_for_other_jobs(self, ranks: Iterable[int]) -> bool:
        """Have these ranks done their part, and wait for jobs that train the same model?"""
        return all(self._waits_on(rank, WaitsOn.OTHER_JOBS) for rank in ranks)

    def _waits_on(self, rank: int, what: WaitsOn) -> bool:
        return rank in self.activities and what in self.activities[rank].waits_on

    def facts_of(self, rank: int) -> NodeFacts:
        """Return what the rank's node tells; nothing where none does."""
        return self.nodes.get(self.roster.ranks[rank].host or "", NO_FACTS)

    def gpus_of(self, rank: int) -> tuple[Gpu, ...]:
        """Return the GPUs on which the rank's processes compute.

        One that the driver cannot reach tells of no process: it is that of the one rank of its node without another.
        """
        view, facts = self.roster.ranks[rank], self.facts_of(rank)
        found = facts.gpus_of(pids_of(view))
        lost = [gpu for gpu in facts.gpus if gpu.fault is not None and not gpu.processes]
        if found or len(lost) != 1:
            return found
        others = [each for each in self.roster.by_host[facts.host] if each.rank != rank and not each.gone]
        return tuple(lost) if others and all(facts.gpus_of(pids_of(each)) for each in others) else ()

    def kernel_on(self, rank: int) -> list[KernelEvent]:
        """Return what the kernel of its node tells of the rank's processes and their GPUs."""
        view, facts = self.roster.ranks[rank], self.facts_of(rank)
        return [event for event in facts.events if concerns(event, view, facts)]

    def seen(self, ranks: Iterable[int]) -> list[Activity]:
        """Return what those of some ranks do whose stack or state was seen."""
        return [self.activities[rank] for rank in ranks if rank in self.activities]

    def doing(self, rank: int) -> Doing:
        activity = self.activities.get(rank)
        return Doing.UNKNOWN if activity is None else activity.doing
