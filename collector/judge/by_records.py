"""Steps 4 to 7 put together: which faults the flight records show, most rooted first.

Evidence is tried from the strongest to the weakest: a signature that differs, a root or a cycle of the wait-for
graph, and an operation that everybody has joined and nobody leaves.
"""

from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, kind_of
from collector.judge.records.compare_sequences import Mismatch
from collector.judge.records.deadlock import circle_fault
from collector.judge.records.disputes import disputes_of
from collector.judge.records.first_use import unless_first_use
from collector.judge.records.open_groups import open_faults
from collector.judge.records.passed_roots import differing_roots
from collector.judge.records.roots import root_faults
from collector.judge.records.stuck_together import left_behind, stuck_faults
from collector.judge.records.unrecorded_waits import waits_unrecorded, with_hidden
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.call_order import CallOrders
from shared.answer.diagnosis import Conflict
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself

_MOST_CONFLICTS = 8


@costs_itself(lambda observations: [])
def faults_by_record(observations: Observations) -> list[Fault]:
    """Return the faults that the flight records show; empty where they show none."""
    # 4. Same sequence, different signature.
    disputes = disputes_of(observations.groups, observations.traces)
    known = [mismatch.group for mismatch in disputes]
    disputes += [mismatch for mismatch in differing_roots(observations) if mismatch.group not in known]
    convicted = frozenset(rank for mismatch in disputes for rank in mismatch.culprits)
    disputed = frozenset(rank for mismatch in disputes for rank in mismatch.ranks)
    # 5, 6. Follow the edges; who is convicted of a mismatch is a root whatever it waits for.
    graph = WaitGraph(observations.edges, cut=convicted)
    joined = [edge for edge in observations.edges if not edge.holders]
    entered = {
        edge.waiter for edge in joined if edge.waiter in disputed or edge.group.is_guessed or not left_behind(edge)
    }
    # What is pending in a group of a guessed name may wait for whoever is in another one of that name.
    entered |= {each.rank for group in observations.groups if group.is_guessed for each in group.p2p}
    roots = [rank for rank in graph.roots() if rank not in convicted | entered]
    hidden = [rank for rank in roots if waits_unrecorded(rank, observations)]
    programs = CallOrders(observations.groups, observations.traces)
    faults = [_mismatch_fault(mismatch, graph, observations.edges) for mismatch in disputes]
    rooted = root_faults([rank for rank in roots if rank not in hidden], graph, observations, programs)
    faults += [unless_first_use(fault, observations) for fault in rooted]
    if hidden:
        faults = with_hidden(faults, hidden, graph, observations)
    held = (
        graph.victims_of([*convicted, *(rank for rank in roots if not _only_undumped(rank, observations))]) | disputed
    )
    behind = graph.victims_of(roots)
    cycles = [cycle for cycle in graph.cycles() if not held & set(cycle)]
    circles = [(cycle, circle_fault(cycle, graph, observations, programs)) for cycle in cycles]
    # A circle of waits that blames somebody holds by itself, whatever those without a dump may do.
    faults += [fault for cycle, fault in circles if fault.blames_somebody or not behind & set(cycle)]
    # Who waits for a fault that is seen accuses no absent rank besides: that it left no dump is told among what lacks.
    told = {r for fault in faults if not _of_undumped(fault, observations) for r in (*fault.culprits, *fault.victims)}
    faults = [fault for fault in faults if not (_of_undumped(fault, observations) and told.issuperset(fault.victims))]
    faults.sort(key=lambda fault: _of_undumped(fault, observations))
    # 7. All issued, none completed.
    return faults or open_faults(observations, programs) or stuck_faults(graph, observations, programs)


def _only_undumped(rank: int, observations: Observations) -> bool:
    """Is all that is wrong with the rank, as far as known, that there is no dump of it?"""
    return not observations.roster.live and kind_of(rank, observations) is Kind.RANK_MISSING


def _of_undumped(fault: Fault, observations: Observations) -> bool:
    return bool(fault.culprits) and all(_only_undumped(rank, observations) for rank in fault.culprits)


def _mismatch_fault(mismatch: Mismatch, graph: WaitGraph, edges: tuple[Edge, ...]) -> Fault:
    involved = set(mismatch.ranks)
    victims = (involved | graph.victims_of(involved)) - set(mismatch.culprits)
    return Fault(
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=mismatch.culprits,
        victims=tuple(sorted(victims)),
        certainty=how_sure(Kind.COLLECTIVE_MISMATCH, _support(mismatch)),
        cause=Cause.USER_CODE,
        edges=tuple(edge for edge in edges if edge.group is mismatch.group),
        mismatch=mismatch,
        group=mismatch.group,
        op=mismatch.group.parts_at(mismatch.sides[0][0][0], mismatch.sequence)[-1].op,
        sequence=mismatch.sequence,
        remarks=mismatch.remarks,
    )


@costs_itself(lambda observations: ())
def conflicts_of_records(observations: Observations) -> tuple[Conflict, ...]:
    """Return the records of which two copies contradict each other."""
    told = [(rank, trace.contradiction) for rank, trace in observations.traces.items() if trace.contradiction]
    return tuple(
        Conflict(sources=("recorder", "recorder"), text=f"rank {rank}: {text}") for rank, text in told[:_MOST_CONFLICTS]
    )


def _support(mismatch: Mismatch) -> Support:
    """Return what shows that the calls differ, and who of those that disagree is wrong, where that is told.

    Where no side has a majority nobody is blamed, and that they differ is on record all the same.
    """
    if mismatch.of_roots:
        return Support.ROOTS
    return Support.RECORD if mismatch.certain or not mismatch.culprits else Support.PART_OF_RECORD
