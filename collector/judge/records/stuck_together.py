"""Step 7 of the verdict: what everybody has issued and nobody completes.

No record differs, so nobody is blamed, unless a rank came there by a way of its own: then its call may be another one.
"""

from collections import defaultdict
from collections.abc import Sequence

from collector.align.groups.signature_rules import ROOTED, is_compared
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.roster import HELD, Roster
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, kind_of
from collector.judge.records.passed_roots import agree_on_root
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.call_order import CallOrders
from shared.answer.words import Cause, Kind
from shared.formats.recorder.coalesced import COALESCED
from shared.plural import ranks_with

_OPEN_WORLD = "the world size is unknown: a rank that left no dump may be the missing one"


def stuck_faults(graph: WaitGraph, observations: Observations, programs: CallOrders) -> list[Fault]:
    """Operations that every member has issued and nobody completes: divergence is ruled out, blame is not found."""
    stuck: dict[tuple[str, int | None], list[Edge]] = defaultdict(list)
    lost = observations.roster.ranks.keys() - observations.traces.keys()  # who may be members, too
    for edge in observations.edges:
        paired = edge.is_p2p and edge.signature.op != COALESCED
        met = paired or (edge.group.is_met_at(edge.sequence or 0) and not edge.group.others)
        whole = not edge.group.unknown and met and not edge.to_unknown and not (edge.group.is_guessed and lost)
        if not edge.holders and whole and not may_be_ending(edge, observations):
            stuck[edge.group.name, edge.sequence].append(edge)
    if not stuck:
        return []
    edges = min(stuck.values(), key=lambda each: (min(edge.created_ns for edge in each), each[0].group.name))
    victims = {edge.waiter for each in stuck.values() for edge in each}
    together = Fault(
        kind=Kind.STUCK_TOGETHER,
        culprits=(),
        victims=tuple(sorted(victims | graph.victims_of(victims))),
        certainty=how_sure(
            Kind.STUCK_TOGETHER, _support(edges, open_world=_is_open_world(edges[0], observations.roster))
        ),
        cause=Cause.UNKNOWN,
        edges=tuple(edges),
        group=edges[0].group,
        op=edges[0].signature.op,
        sequence=edges[0].sequence,
        remarks=(
            *_completed_by(edges[0]),
            _no_divergence(edges[0], observations),
            *((_OPEN_WORLD,) if _is_open_world(edges[0], observations.roster) else ()),
        ),
    )
    waiters = {edge.waiter for edge in edges}
    held = tuple(sorted(rank for rank in waiters if observations.roster.ranks[rank].presence in HELD))
    if held:
        return [_held_inside(held, together, observations)]
    strays = () if edges[0].is_p2p or observations.overwritten(waiters) else programs.strays(waiters)
    if strays:  # to the others, the call that one of them has come to by a way of its own is another one
        return [together.convicting([stray.rank for stray in strays], Support.HABIT, *map(str, strays))]
    return [together]


def _held_inside(held: tuple[int, ...], together: Fault, observations: Observations) -> Fault:
    """What all have issued waits for those of them that are stopped, or frozen with their cgroup, inside of it."""
    kind = kind_of(held[0], observations)
    others = tuple(rank for rank in together.victims if rank not in held)
    own = {"culprits": held, "victims": others, "cause": Cause.SIGNAL, "remarks": ()}
    return together.resting_on(Support.PROCESS, kind=kind, **own)


def left_behind(edge: Edge) -> bool:
    """Have all members but the waiters completed the operation? Then what holds it is with the waiters themselves.

    Of an operation with a root that shows nothing: who only sends may be done long before the root is. Nor of a batch,
    whose parts are not on record: who has called fewer is done, and is the odd one.
    """
    if edge.holders or edge.sequence is None or edge.signature.op in (*ROOTED, COALESCED):
        return False
    return edge.group.left_behind_at(edge.sequence)


def may_be_ending(edge: Edge, observations: Observations) -> bool:
    """Have the others completed the operation, and has nobody issued anything since? Then nobody waits for anybody.

    That an operation has ended is written down a moment after the call returns: a job that ends well may look so.
    """
    if observations.roster.live or not left_behind(edge):
        return False
    begun = [
        observations.traces[rank].created_ns[at]
        for rank, lane in edge.group.lanes.items()
        for at in lane.at(edge.sequence or 0)
    ]
    return max(trace_end for trace in observations.traces.values() for trace_end in trace.created_ns) <= max(begun)


def _completed_by(edge: Edge) -> tuple[str, ...]:
    of_batch = edge.signature.op == COALESCED and not edge.is_p2p and edge.group.left_behind_at(edge.sequence or 0)
    if not of_batch and not left_behind(edge):
        return ()
    done = edge.group.completed_at(edge.sequence or 0)
    return (f"{ranks_with(done, 'has', 'have')} completed it",)


def _no_divergence(edge: Edge, observations: Observations) -> str:
    op, counted = edge.signature.op, edge.waiter not in observations.recorded
    if op in ROOTED and not agree_on_root(edge.group, edge.sequence, observations):
        return "every member has issued it with fitting sizes and types; the root each rank passed is not recorded"
    if op == COALESCED:
        return "every member has issued it; its parts are not on record: some rank may have called fewer, or other ones"
    if not is_compared(op):
        return f"every member has issued it; which arguments of {op} must match is unknown, so none are compared"
    alike = "as many elements" if counted else "equal sizes and types"
    same_root = " and one root" if op in ROOTED else ""
    return f"every member has issued it with {alike}{same_root}, so the code does not diverge here"


def _is_open_world(edge: Edge, roster: Roster) -> bool:
    """Dumps that name no members do not show that the rank above the highest seen has left none."""
    return edge.group.inferred and roster.world_size is None


def _support(edges: Sequence[Edge], *, open_world: bool) -> Support:
    """Return what shows that nobody is missing where all wait; `open_world`: nothing tells the world size."""
    if open_world:
        return Support.ELIMINATION
    complete = len(edges) == len(edges[0].group.members) or edges[0].is_p2p
    return Support.RECORD if complete else Support.PART_OF_RECORD
