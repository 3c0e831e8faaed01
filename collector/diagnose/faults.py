"""Steps 4 to 7 put together: which faults the flight records show, most rooted first.

Grounds are tried from the strongest to the weakest: a signature that differs, a root or a cycle of the wait-for
graph, and an operation that everybody has joined and nobody leaves.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from collector.diagnose.disputes import disputes_of
from collector.diagnose.graph import WaitGraph
from collector.diagnose.hidden import hidden_faults, waits_unrecorded
from collector.diagnose.orders import order_breaker
from collector.diagnose.programs import Programs, Stray
from collector.diagnose.roster import Presence
from collector.diagnose.scene import TELLING, Fault, Scene, first_edge, kind_of
from collector.diagnose.shifts import shift_of
from collector.diagnose.signatures import ROOTED, Mismatch
from collector.diagnose.waits import Edge
from shared.coalesced import COALESCED
from shared.diagnosis import Cause, Certainty, Kind
from shared.ranks import ranks_in_words


def faults_by_record(scene: Scene) -> list[Fault]:
    """Return the faults that the flight records show; empty where they show none."""
    # 4. Same sequence, different signature.
    disputes = disputes_of(scene.groups, scene.traces)
    convicted = frozenset(rank for mismatch in disputes for rank in mismatch.culprits)
    disputed = frozenset(rank for mismatch in disputes for rank in mismatch.ranks)
    # 5, 6. Follow the edges; who is convicted of a mismatch is a root whatever it waits for.
    graph = WaitGraph(scene.edges, cut=convicted)
    entered = {edge.waiter for edge in scene.edges if not edge.holders}
    roots = [rank for rank in graph.roots() if rank not in convicted | entered]
    hidden = [rank for rank in roots if waits_unrecorded(rank, scene)]
    programs = Programs(scene.groups, scene.traces)
    faults = [_mismatch_fault(mismatch, graph, scene) for mismatch in disputes]
    faults += _root_faults([rank for rank in roots if rank not in hidden], graph, scene, programs)
    if hidden and not faults:
        faults = hidden_faults(tuple(hidden), graph, scene)
    held = graph.victims_of([*convicted, *(rank for rank in roots if not _only_undumped(rank, scene))]) | disputed
    behind = graph.victims_of(roots)
    circles = [
        (cycle, _cycle_fault(cycle, graph, scene, programs)) for cycle in graph.cycles() if not held & set(cycle)
    ]
    faults += [fault for cycle, fault in circles if _stands_alone(fault) or not behind & set(cycle)]
    faults.sort(key=lambda fault: all(_only_undumped(rank, scene) for rank in fault.culprits or [-1]))
    # 7. All issued, none completed.
    return faults or _stuck_faults(graph, scene, programs)


def _stands_alone(fault: Fault) -> bool:
    """Does a circle of waits hold by itself, whatever those without a dump may do?"""
    return bool(fault.culprits) and fault.certainty is not Certainty.SUSPECTED


def _only_undumped(rank: int, scene: Scene) -> bool:
    """Is all that is wrong with the rank, as far as known, that there is no dump of it?"""
    return not scene.roster.live and rank in scene.roster.ranks and kind_of(rank, scene) is Kind.RANK_MISSING


def _mismatch_fault(mismatch: Mismatch, graph: WaitGraph, scene: Scene) -> Fault:
    involved = set(mismatch.ranks)
    victims = (involved | graph.victims_of(involved)) - set(mismatch.culprits)
    return Fault(
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=mismatch.culprits,
        victims=tuple(sorted(victims)),
        certainty=_mismatch_certainty(mismatch),
        cause=Cause.USER_CODE,
        edges=tuple(edge for edge in scene.edges if edge.group is mismatch.group),
        mismatch=mismatch,
        group=mismatch.group,
        op=mismatch.sides[0][1].op,
        sequence=mismatch.sequence,
        remarks=mismatch.remarks,
    )


def _mismatch_certainty(mismatch: Mismatch) -> Certainty:
    if not mismatch.culprits:
        return Certainty.SUSPECTED
    return Certainty.PROVEN if mismatch.certain else Certainty.SUPPORTED


def _root_faults(roots: Iterable[int], graph: WaitGraph, scene: Scene, programs: Programs) -> list[Fault]:
    """One fault for all roots of one kind that are waited for in the same operation."""
    together: dict[tuple[Kind, Cause | None, str, int | None], list[int]] = defaultdict(list)
    for root in roots:
        edge = first_edge(graph.edges_to([root]))
        kind = kind_of(root, scene)
        cause = scene.activities[root].cause if root in scene.activities and kind is Kind.RANK_NOT_JOINED else None
        together[kind, cause, "" if edge is None else edge.group.name, edge.sequence if edge else None].append(root)
    faults = [_root_fault(key[0], tuple(ranks), graph, scene) for key, ranks in together.items()]
    return [_turned(fault, scene, programs) for fault in faults]


def _root_fault(kind: Kind, culprits: tuple[int, ...], graph: WaitGraph, scene: Scene) -> Fault:
    edges = graph.edges_to(culprits)
    first = first_edge(edges)
    if first is not None and first.is_p2p and kind is Kind.RANK_NOT_JOINED:
        kind = Kind.P2P_UNMATCHED
    begun = not (first is not None and kind is Kind.RANK_NOT_JOINED and set(culprits) <= set(first.queued))
    certainty = _root_certainty(kind, culprits, first, scene)
    return Fault(
        kind=kind if begun else Kind.STUCK_TOGETHER,
        culprits=culprits,
        victims=tuple(sorted(graph.victims_of(culprits))),
        certainty=certainty if begun else Certainty.SUPPORTED,
        edges=(*edges, *graph.edges_among(graph.victims_of(culprits))),
        group=None if first is None else first.group,
        op=None if first is None else first.signature.op,
        sequence=None if first is None else first.sequence,
        remarks=(
            *_membership_remark(first),
            *(() if begun else (f"{ranks_in_words(culprits)} issued it, and the device has not begun it",)),
            *_shift_remark(culprits, first, scene),
        ),
    )


def _shift_remark(culprits: tuple[int, ...], edge: Edge | None, scene: Scene) -> tuple[str, ...]:
    """A rank that is one operation short may have skipped it long ago: call sites tell where."""
    if edge is None or edge.is_p2p or len(culprits) != 1:
        return ()
    shift = shift_of(edge.group, culprits[0], edge.waiter, scene.traces)
    return () if shift is None else (str(shift),)


def _root_certainty(kind: Kind, culprits: tuple[int, ...], edge: Edge | None, scene: Scene) -> Certainty:
    """Proven where marks or process state show it; what rests on elimination or inference is weaker."""
    views = [scene.roster.ranks[rank] for rank in culprits]
    if kind is Kind.RANK_STOPPED or all(view.exited is not None for view in views):
        return Certainty.PROVEN
    if kind is Kind.RANK_UNREACHABLE:
        return (
            Certainty.PROVEN
            if all(v.unanswered is not None and v.unanswered.ranks for v in views)
            else Certainty.SUPPORTED
        )
    if edge is not None and all(rank in edge.group.lanes or rank in edge.holders for rank in culprits):
        marked = all(rank in edge.group.lanes for rank in culprits)
        if marked and not (edge.group.inferred and edge.group.name != "0"):
            return Certainty.PROVEN
        return Certainty.SUPPORTED
    return Certainty.SUSPECTED


def _membership_remark(edge: Edge | None) -> tuple[str, ...]:
    if edge is None or not edge.group.inferred or edge.group.name == "0":
        return ()
    return (f"no dump names the members of group {edge.group.name}; they were inferred from the records",)


def _turned(fault: Fault, scene: Scene, programs: Programs) -> Fault:
    """The odd rank may be ahead: a few wait where the many, communicating elsewhere or done, will never come."""
    if fault.group is None or fault.kind not in (Kind.RANK_NOT_JOINED, Kind.RANK_EXITED):
        return fault
    waiting = {edge.waiter for edge in fault.edges if edge.group is fault.group and edge.sequence == fault.sequence}
    if len(fault.culprits) <= len(waiting) or 2 * len(waiting) >= len(fault.group.members):
        return fault
    if all(_went_on(rank, scene) for rank in fault.culprits):
        return _convicting(waiting, fault, "most of the group went on without this operation")
    shifts = [shift_of(fault.group, rank, fault.culprits[0], scene.traces) for rank in sorted(waiting)]
    if all(shift is not None and shift.by < 0 for shift in shifts):
        return _convicting(waiting, fault, *map(str, shifts))
    strays = programs.strays(waiting)
    if len(strays) == len(waiting):
        return _convicting(waiting, fault, *map(str, strays))
    if fault.kind is Kind.RANK_EXITED or all(_held_elsewhere(rank, scene) for rank in fault.culprits):
        return fault
    remark = "most of the group has not issued this operation: either they are held, or the few who wait are astray"
    return replace(fault, culprits=(), certainty=Certainty.SUSPECTED, remarks=(*fault.remarks, remark))


def _convicting(waiting: set[int], fault: Fault, *remarks: str) -> Fault:
    return replace(
        fault,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=tuple(sorted(waiting)),
        victims=tuple(sorted((set(fault.culprits) | set(fault.victims)) - waiting)),
        certainty=Certainty.SUPPORTED,
        cause=Cause.USER_CODE,
        remarks=(*fault.remarks, *remarks),
    )


def _held_elsewhere(rank: int, scene: Scene) -> bool:
    """Does its stack or state tell what holds it, whatever the others do?"""
    activity = scene.activities.get(rank)
    return activity is not None and (activity.cause in TELLING or activity.kernel_tells)


def _went_on(rank: int, scene: Scene) -> bool:
    view = scene.roster.ranks[rank]
    if view.presence is Presence.EXITED:
        return view.exited is not None and view.exited.exit_code == 0
    activity = scene.activities.get(rank)
    return activity is not None and (activity.waits_for_ranks or activity.cause is Cause.TEARDOWN)


def _cycle_fault(cycle: tuple[int, ...], graph: WaitGraph, scene: Scene, programs: Programs) -> Fault:
    inside = tuple(e for e in scene.edges if e.begun and e.waiter in cycle and set(e.holders) & set(cycle))
    p2p = all(edge.is_p2p for edge in inside)
    strays = () if p2p else programs.strays(cycle)
    breaker = None if p2p or strays else order_breaker(cycle, inside, scene.groups, scene.traces)
    culprits = cycle if p2p else tuple(stray.rank for stray in strays) if breaker is None else (breaker,)
    sure = all(not edge.queued for edge in inside) and bool(culprits)
    first = first_edge(inside)
    return Fault(
        kind=Kind.P2P_DEADLOCK if p2p else Kind.ORDER_INVERSION,
        culprits=culprits,
        victims=tuple(sorted((graph.victims_of(cycle) | set(cycle)) - set(culprits))),
        certainty=Certainty.PROVEN if sure else Certainty.SUSPECTED if p2p or not culprits else Certainty.SUPPORTED,
        cause=Cause.USER_CODE,
        edges=inside,
        cycle=_ring(cycle, inside),
        group=None if first is None else first.group,
        op=None if first is None else first.signature.op,
        sequence=None if first is None else first.sequence,
        remarks=tuple(map(str, strays[:_MOST_TOLD])) if culprits else (_TIED,),
    )


_MOST_TOLD = 4
_TIED = "the ranks took the operations in different orders, and no order has a majority"


def _ring(cycle: tuple[int, ...], edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """One closed walk through the deadlock, beginning at its lowest rank."""
    leaving: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        leaving[edge.waiter].append(edge)
    walk: dict[int, Edge] = {}
    at = cycle[0]
    while at not in walk:
        edge = min(leaving[at], key=lambda e: (e.created_ns, e.group.name))
        onward = sorted(set(edge.holders) & set(cycle))
        walk[at] = edge
        at = next((rank for rank in onward if rank not in walk), onward[0])
    ring = list(walk)
    return tuple(walk[rank] for rank in ring[ring.index(at) :])


def _stuck_faults(graph: WaitGraph, scene: Scene, programs: Programs) -> list[Fault]:
    """Operations that every member has issued and nobody completes: divergence is ruled out, blame is not found."""
    stuck: dict[tuple[str, int | None], list[Edge]] = defaultdict(list)
    for edge in scene.edges:
        paired = edge.is_p2p and edge.signature.op != COALESCED
        whole = not edge.group.unknown and (paired or len(edge.group.issued_at(edge.sequence or 0)) > 1)
        if not edge.holders and whole:
            stuck[edge.group.name, edge.sequence].append(edge)
    if not stuck:
        return []
    edges = min(stuck.values(), key=lambda each: (min(edge.created_ns for edge in each), each[0].group.name))
    victims = {edge.waiter for each in stuck.values() for edge in each}
    together = Fault(
        kind=Kind.STUCK_TOGETHER,
        culprits=(),
        victims=tuple(sorted(victims | graph.victims_of(victims))),
        certainty=_stuck_certainty(edges, scene),
        cause=Cause.UNKNOWN,
        edges=tuple(edges),
        group=edges[0].group,
        op=edges[0].signature.op,
        sequence=edges[0].sequence,
        remarks=(_no_divergence(edges[0].signature.op), *_open_world(edges[0], scene)),
    )
    strays = programs.strays({edge.waiter for edge in edges})
    return [_astray(together, strays) if strays else together]


def _astray(fault: Fault, strays: tuple[Stray, ...]) -> Fault:
    """All have issued it, and one of them by a way of its own: to the others its call is another one."""
    return replace(
        fault,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=tuple(stray.rank for stray in strays),
        victims=tuple(rank for rank in fault.victims if rank not in {stray.rank for stray in strays}),
        certainty=Certainty.SUPPORTED,
        cause=Cause.USER_CODE,
        remarks=tuple(map(str, strays)),
    )


def _no_divergence(op: str) -> str:
    if op in ROOTED:
        return "every member has issued it with fitting sizes and types; which root each has in mind is not recorded"
    return "every member has issued it with equal sizes and types, so the code does not diverge here"


def _stuck_certainty(edges: list[Edge], scene: Scene) -> Certainty:
    if _open_world(edges[0], scene):
        return Certainty.SUSPECTED
    complete = len(edges) == len(edges[0].group.members) or edges[0].is_p2p
    return Certainty.PROVEN if complete else Certainty.SUPPORTED


def _open_world(edge: Edge, scene: Scene) -> tuple[str, ...]:
    """Dumps that name no members do not show that the rank above the highest seen has left none."""
    if not edge.group.inferred or scene.roster.world_size is not None:
        return ()
    return ("nothing tells the world size: a rank that left no dump may be the one that is missing",)
