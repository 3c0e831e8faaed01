"""Evidence with parts taken away, as a busy machine takes them: a source that was late, a node that did not answer.

What is left shows less and nothing else. So whoever was innocent stays so, nobody is surer of anything, and a job that
was well has not begun to hang.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from collector.align.expected import Expected, NodesAsked, Unanswered
from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.words import Certainty, Kind
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.stacks import Stacks
from shared.wire.trace import Mark, Origin, Signature, State, Trace


class Thinning(NamedTuple):
    """What is taken away, and of which ranks."""

    kind: str
    ranks: frozenset[int]

    def __str__(self) -> str:
        return f"{self.kind} of {fold(self.ranks)}"


class Case(NamedTuple):
    """Looks at one job, and what whoever asks knows of it."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected

    @property
    def ranks(self) -> tuple[int, ...]:
        """All that any look saw, ascending."""
        return tuple(sorted({rank.identity.rank for snapshot in self.snapshots for rank in snapshot.ranks}))


def late(source: str) -> Missing:
    """What an agent says of a source that did not answer within its time."""
    return Missing(source=source, reason=Reason.TIMED_OUT, detail="not read in time")


def thinned(case: Case, thinning: Thinning) -> Case:
    """Return the case without what `thinning` takes."""
    return KINDS[thinning.kind](case, thinning.ranks)


def _without_sources(*sources: str) -> Callable[[Case, frozenset[int]], Case]:
    lost: Mapping[str, object] = {
        name: {"marks": None, "children": (), "polled_lock": None}.get(name, late(name)) for name in sources
    }
    return lambda case, ranks: _changed(case, ranks, lambda look, _: look.model_copy(update=lost))


def _without_stacks(look: RankSnapshot, _: int) -> RankSnapshot:
    return look.model_copy(update={"stacks": late("stacks")})


def _without_native(look: RankSnapshot, _: int) -> RankSnapshot:
    deep = isinstance(look.stacks, Stacks) and look.stacks.native
    return look.model_copy(update={"stacks": late("stacks")}) if deep else look


def _without_first_record(look: RankSnapshot, at: int) -> RankSnapshot:
    return look.model_copy(update={"recorder": late("recorder")}) if at == 0 else look


def _without_later_records(look: RankSnapshot, at: int) -> RankSnapshot:
    return look.model_copy(update={"recorder": late("recorder")}) if at > 0 else look


def _unwatched(look: RankSnapshot, _: int) -> RankSnapshot:
    return look.model_copy(update={"marks": None, "idle_for_seconds": None, "watched_for_seconds": None})


def _counted(look: RankSnapshot, _: int) -> RankSnapshot:
    """What process groups tell where nothing is recorded: their counters, and the operations that are pending."""
    trace = look.recorder
    if not isinstance(trace, Trace):
        return look
    pending = [at for at, state in enumerate(trace.state) if state != State.COMPLETED]
    kept = {name: array("q", (column[at] for at in pending)) for name, column in trace.columns().items()}
    changed = {
        **kept,
        "call_site": array("q", [0] * len(pending)),
        "call_sites": ((),),
        "signatures": tuple(map(_without_types, trace.signatures)),
        "marks": tuple(_mark(trace, group) for group in range(len(trace.groups))),
        "active_only": True,
        "origin": (Origin.PROCESS_GROUPS,),
        "truncated": False,
        "whole_from": 0,
    }
    return look.model_copy(update={"recorder": trace.model_copy(update=changed)})


def _without_types(told: Signature) -> Signature:
    sizes = ((sum(map(prod, tensors)),) for tensors in (told.input_sizes, told.output_sizes))
    return Signature(told.op, told.backend, (next(sizes),), (), (next(sizes),))


def _mark(trace: Trace, group: int) -> Mark:
    own = [record for record in trace.records() if record.group == trace.groups[group] and not record.is_p2p]
    pending = [record.collective_seq for record in own if record.state != State.COMPLETED]
    issued = max((record.collective_seq for record in own), default=0)
    return Mark(group=group, issued=issued, completed=min(pending, default=issued + 1) - 1)


_Changes = Callable[[RankSnapshot, int], RankSnapshot | None]


def _by_rank(change: _Changes) -> Callable[[Case, frozenset[int]], Case]:
    return lambda case, ranks: _changed(case, ranks, change)


def _changed(case: Case, ranks: frozenset[int], change: _Changes) -> Case:
    """Change every look at these ranks; one that becomes None was not taken, which the node's answer says."""
    seen: dict[int, int] = {}
    snapshots = []
    for snapshot in sorted(case.snapshots, key=lambda each: each.taken_at_ns or 0):
        left: list[RankSnapshot] = []
        for look in snapshot.ranks:
            rank = look.identity.rank
            at = seen.get(rank, 0)
            seen[rank] = at + 1
            kept = change(look, at) if rank in ranks else look
            left.extend([] if kept is None else [kept])
        whole = snapshot.whole and len(left) == len(snapshot.ranks)
        snapshots.append(snapshot.model_copy(update={"ranks": tuple(left), "whole": whole}))
    return case._replace(snapshots=tuple(one for one in snapshots if one.ranks or one.exited))


def _without_ranks(case: Case, ranks: frozenset[int]) -> Case:
    """Their agent, if they had one each, has not answered: it was known whose ranks these are."""
    known = {rank.identity.rank: rank.identity.world_size for snapshot in case.snapshots for rank in snapshot.ranks}
    live = any(snapshot.live for snapshot in case.snapshots)
    silent = tuple(
        Unanswered(host=f"silent-{rank}", missing=late("agent"), ranks=str(rank))
        for rank in sorted(ranks & known.keys())
    )
    expected = case.expected.model_copy(
        update={"unanswered": (*case.expected.unanswered, *silent), "nodes_asked": NodesAsked.SOME} if live else {}
    )
    return _changed(case, ranks, lambda look, at: None)._replace(expected=expected)


def _unlooked_at(case: Case, ranks: frozenset[int]) -> Case:
    """Nobody knew of them: the nodes where they run were not asked."""
    return _changed(case, ranks, lambda look, at: None)


def _unlisted(case: Case, ranks: frozenset[int]) -> Case:
    """Later looks at the nodes of these ranks have not listed the processes there in time."""
    begun = {}
    for snapshot in case.snapshots:
        begun.setdefault(snapshot.host, snapshot.taken_at_ns)
    late_list = Missing(source="ranks", reason=Reason.TIMED_OUT, detail="listing the processes takes too long")
    return case._replace(
        snapshots=tuple(
            snapshot.model_copy(update={"ranks": (), "exited": (), "missing": (*snapshot.missing, late_list)})
            if snapshot.taken_at_ns != begun[snapshot.host] and ranks & {each.identity.rank for each in snapshot.ranks}
            else snapshot
            for snapshot in case.snapshots
        )
    )


KINDS: Mapping[str, Callable[[Case, frozenset[int]], Case]] = MappingProxyType(
    {
        "records": _without_sources("recorder"),
        "first records": _by_rank(_without_first_record),
        "later records": _by_rank(_without_later_records),
        "all records but counters": _by_rank(_counted),
        "marks": _without_sources("marks"),
        "watching": _by_rank(_unwatched),
        "stacks": _by_rank(_without_stacks),
        "native frames": _by_rank(_without_native),
        "processes": _without_sources("process"),
        "logs": _without_sources("logs"),
        "descriptors": _without_sources("fds"),
        "children": _without_sources("children", "polled_lock"),
        "records and native frames": lambda case, ranks: thinned(
            thinned(case, Thinning("records", ranks)), Thinning("native frames", frozenset(case.ranks))
        ),
        "records, marks and stacks": _without_sources("recorder", "marks", "stacks"),
        "all but the process": _without_sources("recorder", "marks", "stacks", "logs", "fds", "children"),
        "later looks": _by_rank(lambda look, at: look if at == 0 else None),
        "first looks": _by_rank(lambda look, at: None if at == 0 else look),
        "later lists": _unlisted,
        "ranks that were asked": _without_ranks,
        "ranks that nobody asked": _unlooked_at,
    }
)
"""What may be taken away, and how it looks then."""


def thinnings(ranks: Sequence[int], *, most: int, seed: int = 0) -> Iterator[Thinning]:
    """For each kind all sets of ranks where these are few, else those of one rank, of all but one, and some drawn."""
    sets = (
        [frozenset(some) for size in range(1, len(ranks) + 1) for some in combinations(ranks, size)]
        if (len(ranks) <= 4)
        else _some_sets(ranks, most, Random(seed))
    )
    return (Thinning(kind, some) for kind in KINDS for some in sets[:most])


def _some_sets(ranks: Sequence[int], most: int, random: Random) -> list[frozenset[int]]:
    whole = frozenset(ranks)
    drawn = [frozenset(random.sample(ranks, random.randint(2, len(ranks) - 1))) for _ in range(most)]
    ends = [frozenset({rank}) for rank in ranks] + [whole - {rank} for rank in ranks]
    random.shuffle(ends)
    return [whole, *(each for pair in zip(ends, drawn, strict=False) for each in pair)]


def surest(findings: Iterable[Finding]) -> dict[int, Certainty]:
    """How sure they are of each rank that they name."""
    sure: dict[int, Certainty] = {}
    for finding in findings:
        for rank in finding.culprit_ranks:
            sure[rank] = max(sure.get(rank, finding.certainty), finding.certainty, key=_ORDER.index)
    return sure


_ORDER = (Certainty.SUSPECTED, Certainty.SUPPORTED, Certainty.PROVEN)


def false_accusations(answer: Diagnosis, guilty: Iterable[int], unseen: Collection[int]) -> dict[int, Certainty]:
    """Whom it names who has done nothing; that an `unseen` rank is missing, or its node silent, may be said of it."""
    blamed = {
        rank
        for finding in answer.findings
        for rank in finding.culprit_ranks
        if not (rank in unseen and finding.kind in _OF_SILENCE and finding.certainty is not Certainty.PROVEN)
    }
    return {rank: sure for rank, sure in surest(answer.findings).items() if rank in blamed - frozenset(guilty)}


_OF_SILENCE = frozenset({Kind.RANK_UNREACHABLE, Kind.RANK_MISSING})


def surer(answer: Diagnosis, before: Diagnosis) -> dict[int, tuple[Certainty, Certainty]]:
    """Of whom it is surer than with all evidence; that a node is silent is further evidence."""
    then, now = surest(before.findings), surest(f for f in answer.findings if f.kind is not Kind.RANK_UNREACHABLE)
    return {
        rank: (then[rank], sure)
        for rank, sure in now.items()
        if rank in then and _ORDER.index(sure) > _ORDER.index(then[rank])
    }
