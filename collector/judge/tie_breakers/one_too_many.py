"""Step 6, roots: a send without its receive, or the reverse. Who waits may have posted one too many: that is a tie.

1. Nobody else has anything in flight: the two are alone, and nothing says which of them goes on.
2. Who waits has posted one more than others in groups of the same role, and who is waited for not one less.
"""

from collector.align.groups.device_queues import unfinished
from collector.align.groups.signature_rules import OTHER_SIDE
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.roster import ByRank
from collector.judge.certainty import Support
from collector.judge.fault import TELLING, Fault
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Trace


def undecided_pair(fault: Fault, observations: Observations) -> Fault:
    """Return the fault without a culprit where who waits may be the odd one, if nothing tells what holds the other."""
    mine = [edge for edge in fault.edges if {*edge.holders} & {*fault.culprits}]
    held = [each for each in observations.seen(fault.culprits) if each.cause in TELLING or each.kernel_tells]
    if (
        len(mine) != 1
        or held
        or not (_are_alone(mine[0], observations.traces) or _is_one_too_many(mine[0], observations.traces))
    ):
        return fault
    edge = mine[0]
    remark = (
        f"rank {edge.waiter} waits in {edge.signature.op} for {ranks_in_words(edge.holders)}: one of them posted one "
        "too many, or the other one too few"
    )
    victims = tuple(sorted({*fault.victims, *fault.culprits}))
    return fault.resting_on(Support.TIE, culprits=(), victims=victims, remarks=(remark, *fault.remarks))


def _are_alone(edge: Edge, traces: ByRank[Trace]) -> bool:
    """1."""
    others = traces.keys() - {edge.waiter, *edge.holders}
    return bool(others) and not any(unfinished(traces[rank]) for rank in others)


def _is_one_too_many(edge: Edge, traces: ByRank[Trace]) -> bool:
    """2. By the sends, or receives, that records hold; or by the recorder's count, which outlives overwritten ones."""
    op = edge.signature.op
    return _is_above(edge, op, OTHER_SIDE.get(op, op), traces) or _is_above(edge, None, None, traces)


def _is_above(edge: Edge, op: str | None, other_op: str | None, traces: ByRank[Trace]) -> bool:
    family = _family(edge.group.description)
    others = traces.keys() - {edge.waiter, *edge.holders}
    usual = {count for rank in others for count in _posted(rank, family, op, traces)}
    usual_there = {count for rank in others for count in _posted(rank, family, other_op, traces)}
    more = {count - 1 for count in _posted(edge.waiter, family, op, traces) - usual}
    owing = _posted(edge.holders[0], family, other_op, traces)
    return bool(more) and more <= usual and not {count + 1 for count in owing - usual_there} & usual_there


def _family(description: str) -> str:
    return description.rstrip("0123456789")


def _posted(rank: int, family: str, op: str | None, traces: ByRank[Trace]) -> set[int]:
    """How many in each of a rank's groups of a family: of one operation, or by the recorder's count of both."""
    trace, counts = traces.get(rank), dict[int, int]()
    if trace is None or (op is not None and trace.truncated):
        return set()
    own = {at for at, group in enumerate(trace.groups) if _family(group.description) == family}
    for at, group in enumerate(trace.group):
        if not trace.is_p2p[at] or group not in own:
            continue
        if op is None:
            counts[group] = max(counts.get(group, 0), trace.p2p_seq[at])
        elif trace.signatures[trace.signature[at]].op == op:
            counts[group] = counts.get(group, 0) + 1
    return {*counts.values()}
