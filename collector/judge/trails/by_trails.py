"""Step F of the verdict: from ranks that others wait for, along their own waits beyond the groups, to who owes these.

1. Who waits for another rank, over a connection or a pipe, is held up by that one, which takes its place.
2. Where that one waits by record for the first in turn, or for whoever led to it, they are a circle: a deadlock.
   Where it waits for others, these are at fault already; where nothing tells for whom, nobody is.
3. Who waits for a process outside the job, over a connection or a FIFO, is its victim, and so is the job.
4. Who waits for what it has started itself, or for what nobody can bring, stays to blame; what that is, is told.

Who was seen at work waits for nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.align.work.trails import Leads, Trail
from collector.judge.certainty import Support, unproven
from collector.judge.fault import Fault, kind_of
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.report.findings import cause_of
from collector.judge.report.summaries import summary_of
from collector.judge.trails.in_words import links_of, named_end, trail_in_words, way_in_words
from shared.answer.diagnosis import ChainLink, Evidence, FdEvidence, StackEvidence
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.rank_sets import ranks_in_words

_KINDS = frozenset({Kind.RANK_NOT_JOINED, Kind.P2P_UNMATCHED})


@dataclass
class _Walk:
    """Where one rank's waits lead within the job."""

    path: tuple[int, ...]
    """The ranks that wait for each other beyond their groups, the last one excepted."""
    trails: tuple[Trail, ...]
    root: int | None = None
    """Who waits for nobody, as far as is seen; None: who is at fault is none of these, or not known."""
    circle: tuple[int, ...] = ()
    waits_in: tuple[int, str] | None = None
    """The rank at the end that waits in an operation, and in which."""


@costs_itself(lambda fault, observations: fault)
def with_trails(fault: Fault, observations: Observations) -> Fault:
    """Follow the waits of a fault's culprits to whoever owes these."""
    if fault.kind not in _KINDS or fault.mismatch is not None or fault.lock is not None:
        return fault
    graph = WaitGraph(observations.edges)
    walks = [walk for rank in fault.culprits if (walk := _walk(rank, graph, observations)) is not None]
    if not walks:
        return fault
    passed = {rank for walk in walks for rank in walk.path}
    named = {rank for walk in walks for rank in (*walk.circle, *(() if walk.root is None else (walk.root,)))}
    culprits = tuple(sorted(({*fault.culprits} - passed) | named))
    trails = tuple({trail.rank: trail for walk in walks for trail in walk.trails}.values())
    elsewhere = not culprits and all(walk.trails[-1].is_owed_elsewhere for walk in walks)
    changed = replace(
        fault,
        kind=_kind(fault, culprits, observations),
        culprits=culprits,
        victims=tuple(sorted({*fault.victims, *passed} - {*culprits})),
        trails=trails,
        chain=tuple(_chain(fault, walks[0], observations)),
        evidence=(*fault.evidence, *(item for trail in trails for item in _evidence(trail, observations))),
    )
    if culprits == fault.culprits and not walks[0].circle:
        told = [f"it {way_in_words(trail)}" for trail in trails if _tells_more(trail)]
        usual = summary_of(fault, cause_of(fault, observations), observations)
        return replace(changed, said="; ".join([usual, *told])) if len(told) == len(culprits) == 1 else changed
    changed = replace(changed, said=_said(fault, walks[0], observations))
    cause = Cause.USER_CODE if walks[0].circle else Cause.OTHER_PROCESS if elsewhere else None
    return replace(changed, certainty=unproven(fault.certainty, Support.OTHER_END), cause=cause)


def _tells_more(trail: Trail) -> bool:
    """Does it tell more than that the rank waits at a pipe, for a child, or for a person?"""
    return (trail.cannot_end and len(trail.hops) > 1) or (trail.end is not None and trail.end.stands_still)


def _kind(fault: Fault, culprits: tuple[int, ...], observations: Observations) -> Kind:
    kinds = {kind_of(rank, observations) for rank in culprits}
    return kinds.pop() if len(kinds) == 1 and culprits != fault.culprits else fault.kind


def _walk(rank: int, graph: WaitGraph, observations: Observations) -> _Walk | None:
    path, trails = [rank], list[Trail]()
    while True:
        trail = None if observations.works(path[-1]) else observations.trail(path[-1])
        if trail is None:
            return _Walk(tuple(path[:-1]), tuple(trails), root=path[-1]) if trails else None
        trails.append(trail)
        walk = _Walk(tuple(path), tuple(trails))
        if trail.to_rank is None:
            if not trail.is_owed_elsewhere:  # 4
                walk.path, walk.root = tuple(path[:-1]), path[-1]
            return walk
        if trail.to_rank in path:  # 2
            walk.circle = tuple(path[path.index(trail.to_rank) :])
            return walk
        held_up_by = graph.waited_for([trail.to_rank])
        seen = observations.activities.get(trail.to_rank)
        if held_up_by or observations.may_wait(trail.to_rank):
            walk.waits_in = trail.to_rank, "communication" if seen is None or seen.op is None else seen.op
            if first := [each for each in path if each in held_up_by]:
                walk.circle = (*path[path.index(first[0]) :], trail.to_rank)
            return walk
        path.append(trail.to_rank)  # 1


def _said(fault: Fault, walk: _Walk, observations: Observations) -> str:
    """Who waits for the first rank in what, and where its own wait leads."""
    trails = [trail_in_words(trail, observations) for trail in walk.trails]
    first = fault.waiting_for(walk.trails[0].rank, besides=walk.path)
    last = _last(walk, observations)
    return "; ".join(
        [*(f"{each.who} {each.does}" for each in first), *trails, *(f"{each.who} {each.does}" for each in last)]
    )


def _chain(fault: Fault, walk: _Walk, observations: Observations) -> list[ChainLink]:
    """The same, one by one."""
    links = [link for trail in walk.trails for link in links_of(trail, observations)]
    links = [*fault.waiting_for(walk.trails[0].rank, besides=walk.path), *links, *_last(walk, observations)]
    closes = bool(walk.circle) or walk.trails[-1].leads is Leads.CIRCLE
    return [*links[:-1], links[-1].model_copy(update={"closes": closes})]


def _last(walk: _Walk, observations: Observations) -> Iterator[ChainLink]:
    """The rank at the end of the waits beyond the groups."""
    if walk.waits_in is not None:
        rank, op = walk.waits_in
        whom = f" for {ranks_in_words(walk.circle[:1])}: a deadlock" if walk.circle else ""
        yield ChainLink(who=f"rank {rank}", does=f"waits in {op}{whom}")
    elif walk.root is not None and walk.root != walk.trails[-1].rank:
        seen = observations.activities.get(walk.root)
        at = "" if seen is None or seen.user is None else f" at {place(seen.user)}"
        yield ChainLink(who=f"rank {walk.root}", does=f"is {'not read' if seen is None else seen.label}{at}")


def _evidence(trail: Trail, observations: Observations) -> Iterator[Evidence]:
    ranks, last = str(trail.rank), trail.hops[-1].at
    pid = trail.hops[0].pid
    text = trail_in_words(trail, observations)
    if last.kind == "semaphore":  # what it waits for is told by its memory
        return
    yield FdEvidence(ranks=ranks, text=text, pid=pid, fd=trail.hops[0].at.fd, target=trail.hops[0].at.name or None)
    if trail.leads is Leads.PROCESS and trail.end is not None and trail.end.activity.frames:
        frames = tuple(map(place, trail.end.activity.frames))
        at = f", at the other end of {last.name}" if last.name else ""
        yield StackEvidence(ranks=ranks, text=f"the stack of {named_end(trail)}{at}", frames=frames)
