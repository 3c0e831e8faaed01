"""Step 5, sends and receives that no recorder holds: who did fewer of them than it always did.

Gloo gives them numbers, and leaves these out in the records of its collectives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from collector.align.groups.table import GroupView, Lane
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.roster import ByRank
from collector.align.thresholds import LEAST_EARLIER
from shared.isolation import costs_itself
from shared.wire.trace import Trace

COUNTS_UNRECORDED = "gloo"
"""The backend that numbers sends and receives, and does not record them."""


class Habit(NamedTuple):
    """How often something was done each time, in the `steps` before, and how often the last time."""

    usual: int
    now: int
    steps: int


def habit_of(counts: Sequence[int]) -> Habit | None:
    """Return what was usual; None where that was not the same each time, or was done too seldom to tell."""
    *earlier, now = counts
    return Habit(earlier[0], now, len(earlier)) if len(earlier) >= LEAST_EARLIER and len(set(earlier)) == 1 else None


_Call = TypeVar("_Call")
Posted = tuple[str, int | None, int | None]
"""Operation, source and target, as the record has them: places in the group."""


def posts_between(
    trace: Trace, group: str, posted: Posted, call_at: Callable[[int], _Call | None]
) -> Iterator[tuple[_Call | None, int, _Call | None]]:
    """Between which two calls a rank has posted an operation on a group, and how often; None: before or after all.

    `call_at`: the call at a place of its record; None: what stands there counts as none.
    """
    alike = {at for at, one in enumerate(trace.signatures) if (one.op, one.source, one.target) == posted}
    before, count = None, 0
    for at in range(trace.whole_from, len(trace)):
        if trace.signature[at] in alike and trace.groups[trace.group[at]].name == group:
            count += 1
        elif (call := call_at(at)) is not None:
            yield before, count, call
            before, count = call, 0
    yield before, count, None


class Short(NamedTuple):
    """A rank that sent or received less than was usual."""

    rank: int
    evidence: str
    """In one sentence, for a remark."""
    edge: Edge | None = None
    """By which another rank waits for the counterpart; None where no recorder holds it."""


@costs_itself(lambda observations: None)
def broken_habit(observations: Observations) -> Short | None:
    """Return the one rank that did less than it always did; None where none did, or several."""
    found = [
        (rank, habit)
        for group in observations.groups
        for rank in group.lanes
        if (habit := _habit_on(group, rank)) is not None and habit.now < habit.usual
    ]
    if len({rank for rank, _ in found}) != 1:
        return None
    rank, (usual, now, steps) = found[0]
    counts = f"rank {rank} issued {now} before its last operation, and {usual} before each of the {steps} like it"
    return Short(rank, f"sends and receives by Gloo's count: {counts}")


def may_owe(rank: int, group: GroupView) -> bool:
    """May a rank lack its side of what another one waits in, unrecorded? Not who waits after as much as ever."""
    habit = _habit_on(group, rank)
    return habit is None or habit.now < habit.usual


def is_of_gloo(rank: int, traces: ByRank[Trace]) -> bool:
    """Does its record leave out all sends and receives?"""
    return {signature.backend for signature in traces[rank].signatures} == {COUNTS_UNRECORDED}


def passes_unrecorded(group: GroupView) -> bool:
    """Have ranks of the group sent or received what Gloo numbers and leaves out?"""
    lanes = ((group.traces.get(rank), lane) for rank, lane in group.lanes.items())
    return any(trace is not None and max(_left_out(lane, trace), default=0) > 0 for trace, lane in lanes)


def _left_out(lane: Lane, trace: Trace) -> Iterable[int]:
    """How many numbers are left out before each of Gloo's operations but the first."""
    ours = [at for at in lane.positions if trace.signatures[trace.signature[at]].backend == COUNTS_UNRECORDED]
    return (trace.op_id[after] - trace.op_id[before] - 1 for before, after in pairwise(ours) if lane.is_gapless)


def _habit_on(group: GroupView, rank: int) -> Habit | None:
    """Compare the gap before the last, unfinished operation with those before operations that came about alike."""
    lane, trace = group.lanes.get(rank), group.traces.get(rank)
    if lane is None or trace is None or not lane.pending or lane.pending[-1] != lane.issued or not lane.is_gapless:
        return None
    if len(lane.positions) < 2 or trace.signatures[trace.signature[lane.positions[-1]]].backend != COUNTS_UNRECORDED:
        return None
    gaps: dict[tuple[int, int], list[int]] = {}
    for before, after in zip(lane.positions, lane.positions[1:], strict=False):
        alike = (trace.signature[before], trace.signature[after])
        gaps.setdefault(alike, []).append(trace.op_id[after] - trace.op_id[before] - 1)
    habit = habit_of(gaps[trace.signature[lane.positions[-2]], trace.signature[lane.positions[-1]]])
    return habit if habit is not None and habit.now >= 0 else None
