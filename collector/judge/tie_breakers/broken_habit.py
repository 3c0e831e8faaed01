"""Step 5, sends and receives that no recorder holds: who did fewer of them than it always did.

Gloo gives them numbers, and leaves these out in the records of its collectives.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from collector.align.groups.table import GroupView, Lane
from collector.align.observations import Observations
from collector.align.thresholds import LEAST_EARLIER
from shared.isolation import costs_itself
from shared.wire.trace import Trace

_COUNTS_UNRECORDED = "gloo"


class Habit(NamedTuple):
    """How often something was done each time, in the `steps` before, and how often the last time."""

    usual: int
    now: int
    steps: int


def habit_of(counts: Sequence[int]) -> Habit | None:
    """Return what was usual; None where that was not the same each time, or was done too seldom to tell."""
    *earlier, now = counts
    return Habit(earlier[0], now, len(earlier)) if len(earlier) >= LEAST_EARLIER and len(set(earlier)) == 1 else None


@dataclass(frozen=True)
class BrokenHabit:
    """One rank that issued fewer unrecorded operations than in each of the steps before."""

    rank: int
    habit: Habit

    def __str__(self) -> str:
        """The evidence in one sentence, for a remark."""
        usual, now, steps = self.habit
        return (
            f"sends and receives by Gloo's count: rank {self.rank} issued {now} before its last operation, and "
            f"{usual} before each of the {steps} like it"
        )


@costs_itself(lambda observations: None)
def broken_habit(observations: Observations) -> BrokenHabit | None:
    """Return the one rank that did less than it always did; None where none did, or several."""
    found = [
        BrokenHabit(rank, habit)
        for group in observations.groups
        for rank in group.lanes
        if (habit := _habit_on(group, rank, observations)) is not None and habit.now < habit.usual
    ]
    return found[0] if len({habit.rank for habit in found}) == 1 else None


def may_owe(rank: int, group: GroupView, observations: Observations) -> bool:
    """May a rank lack its side of what another one waits in, unrecorded? Not who waits after as much as ever."""
    habit = _habit_on(group, rank, observations)
    return habit is None or habit.now < habit.usual


def is_of_gloo(rank: int, observations: Observations) -> bool:
    """Does its record leave out all sends and receives?"""
    return {signature.backend for signature in observations.traces[rank].signatures} == {_COUNTS_UNRECORDED}


def passes_unrecorded(group: GroupView, observations: Observations) -> bool:
    """Have ranks of the group sent or received what Gloo numbers and leaves out?"""
    lanes = ((observations.traces.get(rank), lane) for rank, lane in group.lanes.items())
    return any(trace is not None and max(_left_out(lane, trace), default=0) > 0 for trace, lane in lanes)


def _left_out(lane: Lane, trace: Trace) -> Iterable[int]:
    """How many numbers are left out before each of Gloo's operations but the first."""
    ours = [at for at in lane.positions if trace.signatures[trace.signature[at]].backend == _COUNTS_UNRECORDED]
    return (trace.op_id[after] - trace.op_id[before] - 1 for before, after in pairwise(ours) if lane.is_gapless)


def _habit_on(group: GroupView, rank: int, observations: Observations) -> Habit | None:
    """Compare the gap before the last, unfinished operation with those before operations that came about alike."""
    lane, trace = group.lanes.get(rank), observations.traces.get(rank)
    if lane is None or trace is None or not lane.pending or lane.pending[-1] != lane.issued or not lane.is_gapless:
        return None
    if len(lane.positions) < 2 or trace.signatures[trace.signature[lane.positions[-1]]].backend != _COUNTS_UNRECORDED:
        return None
    gaps: dict[tuple[int, int], list[int]] = {}
    for before, after in zip(lane.positions, lane.positions[1:], strict=False):
        alike = (trace.signature[before], trace.signature[after])
        gaps.setdefault(alike, []).append(trace.op_id[after] - trace.op_id[before] - 1)
    habit = habit_of(gaps[trace.signature[lane.positions[-2]], trace.signature[lane.positions[-1]]])
    return habit if habit is not None and habit.now >= 0 else None
