"""Steps 5 and 6, sends and receives: which stage of a pipeline passed on less than the same stage of its siblings.

Groups of one role, `pp0` and `pp1`, run one program. What like members send and receive between the same two calls is
the same, also where every step differs from the one before it, so that a rank's own habit tells nothing.

1. Between two calls of which it waits in the later one, or in one after it, a rank posted less than its likes.
2. Before that all of them did the same.
3. Who waits for the counterpart has not itself posted more than its like: else it is one too many.
"""

from collections.abc import Collection, Iterable, Mapping

from collector.align.groups.process_groups import role_of, siblings_of
from collector.align.groups.signature_rules import OTHER_SIDE
from collector.align.groups.table import GroupView
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.thresholds import LEAST_EARLIER
from collector.judge.tie_breakers.broken_habit import COUNTS_UNRECORDED, Posted, Short, posts_between
from shared.isolation import costs_itself
from shared.rank_sets import ranks_in_words

_Call = tuple[str, int]
"""(role of a group, sequence)."""
_Spans = dict[_Call | None, tuple[int, _Call | None]]
"""By a call, how often its rank posted after it, and before which other one. None: no call before it, or after it."""


@costs_itself(lambda edges, observations: None)
def fewer_by_record(edges: Iterable[Edge], observations: Observations) -> Short | None:
    """Return who in a circle owes a send or receive that its likes have posted; None where none does, or several."""
    told = (
        _owed(edge, edge.holders[0], observations) for edge in edges if edge.is_p2p and edge.holders and not edge.queued
    )
    found = {fewer.rank: fewer for fewer in told if fewer is not None}
    return next(iter(found.values())) if len(found) == 1 else None


@costs_itself(lambda hidden, observations: None)
def fewer_by_count(hidden: Collection[int], observations: Observations) -> Short | None:
    """Return the same by Gloo's numbers, which count what it does not record; `hidden`: who waits for that."""
    found: dict[int, Short] = {}
    for group in observations.groups:
        if group.is_default or not set(group.members) & set(hidden):
            continue
        for rank in set(group.lanes).difference(hidden):
            theirs = {like: _counted(like, other, observations) for like, other in _likes(rank, group, observations)}
            short = _short(_counted(rank, group, observations), theirs) if group.lanes[rank].pending else None
            if short is not None:
                found[rank] = _fewer(rank, "point-to-point operations", *short)
    return next(iter(found.values())) if len(found) == 1 else None


def _owed(edge: Edge, owing: int, observations: Observations) -> Short | None:
    waited = edge.signature
    if waited.op not in OTHER_SIDE or not {owing, edge.waiter} <= observations.traces.keys():
        return None
    mine, posted = (waited.op, waited.source, waited.target), (OTHER_SIDE[waited.op], waited.source, waited.target)
    likes = _likes(owing, edge.group, observations)
    short = _short(
        _recorded(owing, edge.group, posted, observations),
        {like: _recorded(like, other, posted, observations) for like, other in likes},
    )
    waiters = _likes(edge.waiter, edge.group, observations)
    theirs = [_recorded(like, other, mine, observations) for like, other in waiters]
    if short is None or _is_over(_recorded(edge.waiter, edge.group, mine, observations), theirs):
        return None
    return _fewer(owing, f"{posted[0]}s", *short, edge=edge)


def _fewer(rank: int, what: str, now: int, usual: int, likes: tuple[int, ...], edge: Edge | None = None) -> Short:
    counts = f"{now} by rank {rank}, {usual} by {ranks_in_words(likes)}"
    where = f"{what} before the operation that rank {rank} waits in"
    return Short(rank, f"{where}: {counts}, in the same place of other groups of this role", edge)


def _likes(rank: int, group: GroupView, observations: Observations) -> list[tuple[int, GroupView]]:
    """Who has the same place in the other groups of this role, and in which."""
    place = group.order.index(rank)
    return [(other.order[place], other) for other in siblings_of(group, observations.groups)]


def _short(mine: _Spans, theirs: Mapping[int, _Spans]) -> tuple[int, int, tuple[int, ...]] | None:
    """1, 2. Return (how often it posted, how often its likes did, who they are) where all did more for the first time.

    They did the same before that, as far back as both are known.
    """
    closed = [(before, span) for before, span in mine.items() if span[1] is not None]
    for at, (before, span) in enumerate(closed):
        told = {rank: spans[before] for rank, spans in theirs.items() if before in spans and spans[before][1]}
        if any(each != span for each in told.values()):
            usual, call = next(iter(told.values()))
            agreed = len(set(told.values())) == 1 and call == span[1] and at >= min(LEAST_EARLIER, len(closed) - 1)
            return (span[0], usual, tuple(sorted(told))) if agreed and span[0] < usual else None
    return None


def _is_over(mine: _Spans, theirs: Collection[_Spans]) -> bool:
    """3. Has it posted more than its likes anywhere, or are there none to tell?"""
    told = [(span[0], spans[before][0]) for spans in theirs for before, span in mine.items() if before in spans]
    return not told or any(posted > usual for posted, usual in told)


def _counted(rank: int, group: GroupView, observations: Observations) -> _Spans:
    """What Gloo numbered between its collectives on `group`, and left out in its record of them."""
    lane, trace = group.lanes.get(rank), observations.traces.get(rank)
    if (
        lane is None
        or trace is None
        or not lane.is_gapless
        or all(one.backend != COUNTS_UNRECORDED for one in trace.signatures)
    ):
        return {}
    calls = [(role_of(group, observations.groups), sequence) for sequence in lane.sequences]
    numbers = [trace.op_id[position] for position in lane.positions]
    return {calls[at - 1]: (numbers[at] - numbers[at - 1] - 1, calls[at]) for at in range(1, len(calls))}


def _recorded(rank: int, group: GroupView, posted: Posted, observations: Observations) -> _Spans:
    """How often it posted this operation on `group` between two collectives, of whatever groups."""
    trace = observations.traces.get(rank)
    if trace is None:
        return {}
    calls = {
        position: (role_of(each, observations.groups), sequence)
        for each in observations.groups
        if rank in each.lanes
        for sequence, position in zip(each.lanes[rank].sequences, each.lanes[rank].positions, strict=True)
    }
    told = posts_between(trace, group.name, posted, calls.get)
    spans = {before: (count, after) for before, count, after in told}
    return {call: span for call, span in spans.items() if call is not None or not trace.truncated}
