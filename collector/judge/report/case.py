"""What is at hand about a finding: the facts by which a row of advice holds, and the words that it is filled with."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from collector.align.groups.signature_rules import ROOTED
from collector.align.observations import Observations
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.awaited import keys_in_words
from collector.align.stacks.call_sites import parting_call
from collector.align.stacks.other_threads import threads_it_may_wait_for
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from collector.align.work.children import named
from collector.align.work.trails import Leads
from collector.judge.fault import Fault
from collector.judge.logs.connections import AT_HOME, AT_PEER, FLUSHED
from collector.judge.logs.own_failures import has_lost_peers
from collector.judge.records.passed_roots import agree_on_root, roots_in_words
from collector.judge.tie_breakers.new_group import makes_group
from collector.judge.trails.in_words import links_of
from shared.answer.diagnosis import (
    Evidence,
    GpuEvidence,
    KernelEvidence,
    LogEvidence,
    Place,
    SequenceEvidence,
    SignatureEvidence,
    StackEvidence,
)
from shared.answer.nccl_faults import NCCL_FAULTS, NcclFault, parse_nccl_version
from shared.answer.words import Cause, Kind
from shared.formats.recorder.coalesced import COALESCED
from shared.plural import either
from shared.rank_sets import ranks_in_words, unfold
from shared.wire.log_events import EventKind
from shared.wire.setup import Setup
from shared.wire.trace import Signature, State

# torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.        HIP error: out of memory
_DEVICE_MEMORY = re.compile(r"\b(CUDA|HIP|XPU)\b.{0,40}out of memory|\bOutOfMemoryError: ", re.IGNORECASE)
# [E …] … we are taking the entire process down.        [F … ProcessGroupNCCL's watchdog got stuck for 600 seconds
_END = re.compile(r"taking the (?:entire )?process down|watchdog got stuck for|\(core dumped\)|terminate called")
_MOST_NAMED = 8
_BEFORE_ANY_WORKED = 2
"""Operations after which a path between devices has worked."""


@dataclass(frozen=True)
class Case:
    """A fault, its cause, and what was observed."""

    fault: Fault
    cause: Cause
    observations: Observations
    evidence: tuple[Evidence, ...] = ()
    """What the finding rests on, as the answer shows it."""

    def holds(self, fact: str) -> bool:
        """Does it hold what a row asks for?"""
        return bool(FACTS[fact](self) if fact in FACTS else getattr(self, fact))

    @property
    def of_mismatch(self) -> tuple[tuple[tuple[int, ...], Signature], ...]:
        """The sides of a mismatch: who called what."""
        return () if self.fault.mismatch is None else self.fault.mismatch.sides

    @property
    def kind(self) -> Kind:
        return self.fault.kind

    @property
    def live(self) -> bool:
        return self.observations.roster.live

    @property
    def recorded(self) -> bool:
        return bool(self.observations.recorded)

    @cached_property
    def has_stacks(self) -> bool:
        return any(view.stacks is not None for view in self.observations.roster.ranks.values())

    @cached_property
    def has_logs(self) -> bool:
        roster = self.observations.roster
        return bool(roster.unowned or roster.communicators) or any(view.logged for view in roster.ranks.values())

    @cached_property
    def lines_of_end(self) -> bool:
        """Do lines say that those who wrote them ended themselves?"""
        return not self.live and any(_END.search(event.text) for _, event in self.observations.statements.all())

    @cached_property
    def seen(self) -> Activity | None:
        """What the first culprit does that was seen."""
        return next(iter(self.observations.seen(self.fault.culprits)), None)

    @cached_property
    def user(self) -> Place | None:
        """The user's line in which it is, or was when the job was found so."""
        if self.seen is None or self.seen.user is None:
            return None if self.fault.where is None else self.fault.where.user
        return place(self.seen.user)

    @cached_property
    def at(self) -> str:
        """That line; empty: not known."""
        return "" if self.user is None else str(self.user)

    @cached_property
    def own_thread(self) -> str:
        """The thread of its own that a culprit may wait for, where only one may be it; empty: none, or several."""
        pairs = [(rank, self.observations.activities.get(rank)) for rank in self.fault.culprits]
        views = self.observations.roster.ranks
        found = [one for rank, seen in pairs if seen for one in threads_it_may_wait_for(views[rank], seen)]
        return f"thread {found[0].thread} at {place(found[0].user)}" if len(found) == 1 and found[0].user else ""

    @cached_property
    def asks_store_at(self) -> str:
        """The user's line from which somebody waits for a key in the store, and makes no group; empty: nobody does."""
        asking = (rank for rank in sorted(self.everybody) if self.observations.doing(rank) is Doing.STORE)
        users = [self.observations.activities[rank].user for rank in asking if not makes_group(rank, self.observations)]
        return next((str(place(user)) for user in users if user is not None), "")

    @cached_property
    def awaited_key(self) -> str:
        """What ranks wait for in the store, by name; empty: no key is known."""
        waits = (self.observations.activities[rank].awaited for rank in sorted(self.everybody))
        keys = dict.fromkeys(key for wait in waits if wait is not None for key in wait.awaited.keys)
        return keys_in_words(tuple(keys)) if keys else ""

    @cached_property
    def sibling(self) -> str:
        """The first that was started together with a rank, has not joined and stands still; empty: none is known."""
        still = (each.process for each in self.observations.siblings if each.stands_still)
        return next(map(named, still), "")

    @cached_property
    def branch(self) -> str:
        """The call by which its stack leaves those of the others, where that is another line; empty: none is known."""
        if self.seen is None:
            return ""
        call = parting_call(self.seen.frames, (each.frames for each in self.observations.seen(self.fault.victims)))
        return "" if call is None or str(place(call)) == self.at else str(place(call))

    @cached_property
    def everybody(self) -> frozenset[int]:
        return frozenset((*self.fault.culprits, *self.fault.victims))

    @cached_property
    def unaccounted(self) -> tuple[int, ...]:
        """Ranks that must be there, and of which nothing is known: named in no evidence, or not seen in any."""
        ranks = self.observations.roster.ranks
        return tuple(rank for rank, view in ranks.items() if rank not in self.everybody and not view.looks)

    @property
    def behind(self) -> tuple[int, ...]:
        """Who has not issued what others wait in, and does not wait in anything else, by the record or by log lines."""
        group, sequence = self.fault.group, self.fault.sequence
        if group is None and not self.fault.culprits:
            counted = (each.absent for each in self.fault.evidence if isinstance(each, SequenceEvidence))
            return tuple(unfold(next(counted, "")))
        absent = () if group is None or sequence is None else group.absent_at(sequence)
        return tuple(rank for rank in absent if rank not in self.fault.victims)

    @cached_property
    def accounts_for_all(self) -> bool:
        """Is the world known and each of its ranks seen, and are all of it, or of a known group, in this?"""
        world, fault = self.observations.roster.world_size, self.fault
        if world is None or self.unaccounted or not self.everybody:
            return False
        members = () if fault.group is None or fault.group.inferred else fault.group.members
        return len(self.everybody) >= world or (bool(members) and self.everybody.issuperset(members))

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of all ranks in it; empty where one of them is not known."""
        found = {self.observations.roster.ranks[rank].host for rank in self.everybody}
        return tuple(sorted(host for host in found if host is not None)) if None not in found else ()

    @cached_property
    def link(self) -> str:
        """Both ends of the first link under suspicion, in words; empty: there is none."""
        ends = [end for link in self.fault.links[:1] for end in (link.from_, link.to)]
        named = [" on ".join(filter(None, ("" if end.rank is None else f"rank {end.rank}", end.host))) for end in ends]
        return " and ".join(named) if all(named) else ""

    @cached_property
    def backends(self) -> frozenset[str]:
        return frozenset(edge.signature.backend for edge in self.fault.edges)

    @cached_property
    def lines(self) -> frozenset[str]:
        return frozenset(each.line for each in self.evidence if isinstance(each, LogEvidence))

    @cached_property
    def statuses(self) -> frozenset[str]:
        """The InfiniBand statuses in the log lines that it rests on."""
        told = self.observations.statements.of_kind(EventKind.TRANSPORT_ERROR)
        return frozenset(
            each.fields["status"] for _, each in told if "status" in each.fields and each.text in self.lines
        )

    @cached_property
    def lost_peers(self) -> bool:
        """Do logs tell of connections that ended, as they do when the process at their other end does?"""
        return has_lost_peers(self.observations.statements)

    @property
    def rooted(self) -> bool:
        """Are all stuck in an operation whose root may not be the same for all of them?"""
        stuck = self.kind is Kind.STUCK_TOGETHER and self.fault.op in ROOTED
        return stuck and not agree_on_root(self.fault.group, self.fault.sequence, self.observations)

    @property
    def lacks_members(self) -> bool:
        """Do ranks wait for members of which these files tell nothing?"""
        if self.fault.culprits or not self.fault.victims or self.cause is not Cause.UNKNOWN or self.accounts_for_all:
            return False
        if self.statuses:  # an adapter failed, whoever came
            return False
        return self.kind is Kind.RANK_NOT_JOINED or (self.kind is Kind.STUCK_TOGETHER and bool(self.unaccounted))

    @cached_property
    def sides(self) -> str:
        """The lines from which the sides of a mismatch called, where these differ."""
        found = (each for each in self.evidence if isinstance(each, SignatureEvidence))
        sites = [side.call_site for each in found for side in each.sides]
        told = [str(site) for site in dict.fromkeys(sites) if site is not None]
        return " with ".join(told[:2]) if len(told) > 1 and None not in sites else ""

    @cached_property
    def raised(self) -> str:
        """The line from which the exception of the one rank at fault came; empty: not known."""
        places = [self.observations.roster.ranks[rank].raised_at for rank in self.fault.culprits]
        return str(places[0]) if len(places) == 1 and places[0] is not None else ""

    @cached_property
    def circle(self) -> str:
        """Who waits for one another beyond the groups; empty: nobody does."""
        trail = next((each for each in self.fault.trails if each.leads is Leads.CIRCLE), None)
        return "" if trail is None else " and ".join(link.who for link in links_of(trail, self.observations))

    @cached_property
    def in_several_places(self) -> bool:
        return not self.recorded and sum(isinstance(each, StackEvidence) for each in self.evidence) > 1

    @cached_property
    def tells_starts(self) -> bool:
        """Do the records tell when a device began an operation?"""
        return any(any(trace.started_ns) for trace in self.observations.traces.values())

    @cached_property
    def nccl_fault(self) -> NcclFault | None:
        """What is known to hang jobs in the version of NCCL that ranks have loaded, recorded or logged, if anything."""
        known = [told for told in map(parse_nccl_version, set(self._nccl_versions())) if told is not None]
        return next((fault for fault in NCCL_FAULTS if fault.hangs and any(map(fault.has, known))), None)

    def _nccl_versions(self) -> Iterator[str | None]:
        roster = self.observations.roster
        for view in roster.ranks.values():
            setup = view.looks[-1].setup if view.looks else None
            if isinstance(setup, Setup) and setup.nccl_loaded:
                yield setup.versions.nccl
            if view.trace is not None and any(each.backend == "nccl" for each in view.trace.signatures):
                yield view.trace.library
        logged = (*roster.unowned, *(event for view in roster.ranks.values() for event in view.logged))
        yield from (event.fields.get("nccl") for event in logged)

    @cached_property
    def locks_in_circle(self) -> bool:
        """Do all who are to blame for holding locks wait for one themselves?"""
        culprits = self.fault.culprits if self.fault.lock is not None else ()
        waiting = (WaitsOn.LOCK_FILE in each.waits_on for each in self.observations.seen(culprits))
        return len(culprits) > 1 and all(waiting)

    @cached_property
    def words(self) -> dict[str, str]:
        """What a row's text may name."""
        culprits = self.fault.culprits
        return {
            "who": ranks_in_words(culprits) if len(culprits) <= _MOST_NAMED else f"these {len(culprits)} ranks",
            "whose": either(culprits, "its", "their"),
            "they": either(culprits, "it is", "they are"),
            "link": self.link,
            "missing": _named(self.unaccounted),
            "behind": ranks_in_words(self.behind) if self.behind else "",
            "op": self.fault.op or "the operation",
            "at": self.at,
            "own_thread": self.own_thread,
            "sibling": self.sibling,
            "branch": self.branch,
            "asks_store_at": self.asks_store_at,
            "awaited_key": self.awaited_key,
            "sides": self.sides,
            "raised": self.raised,
            "circle": self.circle,
            "roots": roots_in_words(self.fault.group, self.fault.sequence, self.observations),
            "nccl": "" if self.nccl_fault is None else f"{self.nccl_fault.change}: {self.nccl_fault.why}",
            "report": "" if self.nccl_fault is None else self.nccl_fault.report,
            "host": self.hosts[0] if self.hosts else "",
            "hosts": ",".join(self.hosts),
            "child": "" if self.seen is None else self.seen.child,
        }


FACTS: Mapping[str, Callable[[Case], object]] = {
    "names_nobody": lambda case: not case.fault.culprits,
    "has_victims": lambda case: case.fault.victims,
    "several_victims": lambda case: len(case.fault.victims) > 1,
    "came_to_all": lambda case: not case.everybody,
    "all_wait": lambda case: len(case.fault.victims) == case.observations.roster.world_size,
    "sure": lambda case: not case.fault.certainty.is_suspicion,
    "of_network": lambda case: case.cause is Cause.NETWORK,
    "uses_nccl": lambda case: "nccl" in case.backends,
    "only_nccl": lambda case: case.backends == {"nccl"},
    "failed_at_home": lambda case: case.statuses and case.statuses <= AT_HOME,
    "failed_at_peer": lambda case: case.statuses and case.statuses <= AT_PEER,
    "flushed": lambda case: case.statuses == {FLUSHED},
    "of_device_memory": lambda case: any(map(_DEVICE_MEMORY.search, case.lines)),
    "of_roots": lambda case: case.fault.mismatch is not None and case.fault.mismatch.of_roots,
    "in_coalesced": lambda case: case.fault.op == COALESCED,
    "is_first": lambda case: case.fault.sequence is not None and case.fault.sequence <= _BEFORE_ANY_WORKED,
    "has_met": lambda case: any(State.COMPLETED in trace.state for trace in case.observations.traces.values()),
    "same_operation": lambda case: len({signature.op for _, signature in case.of_mismatch}) == 1,
    "of_kernel_or_driver": lambda case: any(isinstance(e, KernelEvidence | GpuEvidence) for e in case.evidence),
    "seen_frames": lambda case: case.seen is not None and case.seen.frames,
    "several_hosts": lambda case: len(case.hosts) > 1,
    "at_user_code": lambda case: case.at,
}
"""What rows may ask of a case, besides what it knows by that name itself."""


def _named(ranks: Iterable[int]) -> str:
    named = tuple(ranks)
    return ranks_in_words(named) if named else "the other members"
