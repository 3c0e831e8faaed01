"""Step 6: the roots of the wait-for graph as faults, one for all that are waited for in the same operation."""

from collections import defaultdict
from collections.abc import Iterable

from collector.align.groups.signature_rules import UNPAIRED
from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.thresholds import is_majority
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, ended_well, first_edge, kind_of, left_out, shown_by_process
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.call_order import CallOrders
from collector.judge.tie_breakers.few_have_come import turned
from collector.judge.tie_breakers.skipped_call import shift_of
from shared.answer.words import Cause, Kind
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words


def root_faults(
    roots: Iterable[int], graph: WaitGraph, observations: Observations, programs: CallOrders
) -> list[Fault]:
    """One fault for all roots of one kind that are waited for in the same operation, and one for all silent nodes."""
    together: dict[tuple[Kind, Cause | None, str, int | None], list[int]] = defaultdict(list)
    firsts = graph.first_edges()
    for root in roots:
        edge = firsts.get(root)
        kind = kind_of(root, observations)
        cause = (
            observations.activities[root].cause
            if root in observations.activities and kind is Kind.RANK_NOT_JOINED
            else None
        )
        where = ("", None) if edge is None or kind is Kind.RANK_UNREACHABLE else (edge.group.name, edge.sequence)
        together[kind, cause, *where].append(root)
    faults = [_root_fault(key[0], tuple(ranks), graph, observations) for key, ranks in together.items()]
    return [turned(fault, observations, programs) for fault in faults]


def _root_fault(kind: Kind, culprits: tuple[int, ...], graph: WaitGraph, observations: Observations) -> Fault:
    edges = graph.edges_to(culprits)
    first = first_edge(edges)
    if first is not None and first.is_p2p and kind is Kind.RANK_NOT_JOINED:
        kind = Kind.P2P_UNMATCHED
    group, op, sequence = _operation(culprits, graph, first)
    begun = not (first is not None and kind is Kind.RANK_NOT_JOINED and set(culprits) <= set(first.queued))
    victims = tuple(sorted(graph.victims_of(culprits)))
    guessed = not begun and first is not None and first.group.is_guessed  # its name may be that of several groups
    ended = ended_well(kind, culprits, len(victims), observations)
    nobody = ended or guessed
    support = Support.TIE if nobody else _support(kind, culprits, first, observations)
    if not begun:
        kind, support = Kind.STUCK_TOGETHER, Support.TIE if guessed else Support.PART_OF_RECORD
    remarks = [*_membership_remark(first)]
    if not begun:
        remarks.append(f"{ranks_in_words(culprits)} issued it, but the device has not started it")
    remarks += _shift_remark(culprits, first)
    if ended:
        remarks.append(f"{ranks_with(culprits, 'has', 'have')} ended well: those who wait may be one call ahead")
    return Fault(
        kind=kind,
        culprits=() if nobody else culprits,
        victims=tuple(sorted({*victims, *culprits})) if guessed else victims,
        certainty=how_sure(kind, support),
        edges=(*edges, *graph.edges_among(victims)),
        group=group,
        op=op,
        sequence=sequence,
        remarks=tuple(remarks),
    )


def _operation(
    culprits: tuple[int, ...], graph: WaitGraph, first: Edge | None
) -> tuple[GroupView | None, str | None, int | None]:
    """What they are waited for in: the oldest operation, or of several groups what these have in common."""
    if first is None:
        return None, None, None
    if set(first.group.members).issuperset(culprits):
        return first.group, first.signature.op, first.sequence
    firsts = graph.first_edges()
    told = {(edge.signature.op, edge.sequence) for edge in (firsts.get(rank) for rank in culprits) if edge is not None}
    return (None, *told.pop()) if len(told) == 1 else (None, None, None)


def _shift_remark(culprits: tuple[int, ...], edge: Edge | None) -> tuple[str, ...]:
    """A rank that is one operation short may have skipped it long ago: call sites tell where."""
    if edge is None or edge.is_p2p or len(culprits) != 1:
        return ()
    shift = shift_of(edge.group, culprits[0], edge.waiter)
    return () if shift is None else (str(shift),)


def _membership_remark(edge: Edge | None) -> tuple[str, ...]:
    if edge is None or not edge.group.is_guessed:
        return ()
    return (f"no dump names the members of group {edge.group.name}; they were inferred from the records",)


def _support(kind: Kind, culprits: tuple[int, ...], edge: Edge | None, observations: Observations) -> Support:
    """Return what shows, by records, that others wait for these ranks."""
    if shown_by_process(kind, culprits, observations.roster):
        return Support.PROCESS
    if left_out(culprits, observations):
        return Support.ELIMINATION
    if kind is Kind.RANK_UNREACHABLE:
        silent = [observations.roster.ranks[rank].unanswered for rank in culprits]
        known = all(node is not None and node.ranks for node in silent)
        most = is_majority(len(silent), len(observations.roster.ranks))
        return Support.SILENT_NODE if known and not most else Support.SILENCE
    unpaired = edge is not None and edge.signature.op in UNPAIRED and not edge.is_p2p
    if edge is None or unpaired or not all(rank in edge.group.lanes or rank in edge.holders for rank in culprits):
        return Support.ELIMINATION  # a send that counts as a collective may have two members alone
    marked = all(rank in edge.group.lanes for rank in culprits)
    return Support.RECORD if marked and not edge.group.is_guessed else Support.PART_OF_RECORD
