"""Step 6, roots: a send without its receive, or the reverse. Who waits may have posted one too many: that is a tie.

1. Nobody else has anything in flight: the two are alone, and nothing says which of them goes on.
2. Who waits has posted one more than others in groups of the same role, and who is waited for not one less.
"""

from dataclasses import replace

from collector.align.groups.device_queues import unfinished
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import TELLING, Fault
from shared.rank_sets import ranks_in_words


def undecided_pair(fault: Fault, observations: Observations) -> Fault:
    """Return the fault without a culprit where who waits may be the odd one, if nothing tells what holds the other."""
    mine = [edge for edge in fault.edges if {*edge.holders} & {*fault.culprits}]
    held = [each for each in observations.seen(fault.culprits) if each.cause in TELLING or each.kernel_tells]
    if len(mine) != 1 or held or not (_are_alone(mine[0], observations) or _is_one_too_many(mine[0], observations)):
        return fault
    edge = mine[0]
    remark = (
        f"rank {edge.waiter} waits in {edge.signature.op} for {ranks_in_words(edge.holders)}: one of them posted one "
        "too many, or the other one too few"
    )
    sure = how_sure(fault.kind, Support.TIE)
    victims = tuple(sorted({*fault.victims, *fault.culprits}))
    return replace(fault, culprits=(), victims=victims, certainty=sure, remarks=(remark, *fault.remarks))


def _are_alone(edge: Edge, observations: Observations) -> bool:
    """1."""
    others = observations.traces.keys() - {edge.waiter, *edge.holders}
    return bool(others) and not any(unfinished(observations.traces[rank]) for rank in others)


def _is_one_too_many(edge: Edge, observations: Observations) -> bool:
    """2. Nobody has posted as much as who waits, others one less; and nobody one more than who is waited for."""
    family = _family(edge.group.description)
    others = {
        count
        for rank in observations.traces.keys() - {edge.waiter, *edge.holders}
        for count in _posted(rank, family, observations)
    }
    waiting, owing = (_posted(rank, family, observations) for rank in (edge.waiter, edge.holders[0]))
    return all(count not in others and count - 1 in others for count in waiting) and not any(
        count + 1 in others for count in owing - others
    )


def _family(description: str) -> str:
    return description.rstrip("0123456789")


def _posted(rank: int, family: str, observations: Observations) -> set[int]:
    """How many sends and receives in each of its groups of a family, by the recorder's count: it outlives the ring."""
    trace, counts = observations.traces.get(rank), dict[int, int]()
    if trace is None:
        return set()
    own = {at for at, group in enumerate(trace.groups) if _family(group.description) == family}
    for at, p2p, sequence in zip(trace.group, trace.is_p2p, trace.p2p_seq, strict=True):
        if p2p and at in own:
            counts[at] = max(counts.get(at, 0), sequence)
    return {*counts.values()}
