"""Step 2 again, on a job that moves: is one rank always the one the others wait for?

In a synchronous job every rank of a group leaves an operation together, so time in operations is time spent waiting
for others. A straggler waits for nobody while everybody else waits for it, over several steps of work; in a balanced
job the waiting is spread. All groups count together: a straggler's partners, who arrive late in other groups because
they waited for it, are not to be blamed. Nor is a rank that alone saves or validates: the others wait for it in a
barrier, between steps in which nobody is late.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from collector.align.groups.table import GroupView, Lane
from collector.align.groups.wait_times import Seconds, Waiting, waited_by_completion, waiting_of
from collector.align.thresholds import (
    HABIT_SHARE,
    LEAST_DISTANCE,
    LEAST_OPERATIONS,
    LEAST_PAUSES,
    STRAGGLER_SHARE,
    VICTIM_SECONDS,
    VICTIM_SHARE,
    is_majority,
)
from shared.isolation import costs_itself
from shared.wire.trace import Trace


@dataclass(frozen=True)
class Straggler:
    """One rank that the others wait for, over the last `sequences` operations of `group`."""

    rank: int
    group: GroupView
    lag_seconds: float
    period_seconds: float
    last_in: int
    sequences: int


@costs_itself(lambda groups, traces, hosts: None)
def find_straggler(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> Straggler | None:
    """Return the one rank that makes the others wait by a margin, or None. `nodes`: where each rank runs, if known."""
    waiting = waiting_of(groups, traces, nodes) if len(traces) > 1 else None
    if waiting is None or len(waiting.share) < 2:
        return None
    slowest = min(waiting.share, key=lambda rank: (waiting.share[rank], rank))
    own, others = waiting.share[slowest], [share for rank, share in waiting.share.items() if rank != slowest]
    apart = min(others) - own >= LEAST_DISTANCE and min(others) >= VICTIM_SHARE / 2
    members = {rank for group in groups for rank in group.members}
    if slowest in waiting.untold or not is_majority(len(traces), len(members)):
        return None  # who is not recorded may be the one that even this one waits for
    if own > STRAGGLER_SHARE or median(others) < VICTIM_SHARE or not apart or _pauses(traces[slowest]) < LEAST_PAUSES:
        return None
    return _described(slowest, groups, traces, waiting)


def may_have_straggler(groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> bool:
    """May one rank, of these or of others, make all others wait? Two that hardly wait show that none does.

    Only completions tell how long each rank waited, without the records of the others.
    """
    waiting = waited_by_completion(groups, traces)
    return waiting is None or sum(share < VICTIM_SHARE / 2 for share in waiting.share.values()) < 2


def _pauses(trace: Trace) -> int:
    """How often the rank has worked for long enough to be waited for."""
    return sum(after - before > VICTIM_SECONDS * 1e9 for before, after in pairwise(sorted(trace.created_ns)))


def _described(
    rank: int, groups: tuple[GroupView, ...], traces: dict[int, Trace], waiting: Waiting
) -> Straggler | None:
    """Show the straggler in the group where it lags most."""
    shown = [
        _in_group(rank, group, traces[rank], waiting.in_group(index))
        for index, group in enumerate(groups)
        if rank in group.lanes
    ]
    known = [straggler for straggler in shown if straggler is not None]
    best = max(known, key=lambda straggler: (straggler.lag_seconds, len(straggler.group.members)), default=None)
    if best is None or best.last_in * 2 < best.sequences:
        return None
    return best if best.lag_seconds >= HABIT_SHARE * best.period_seconds else None


def _in_group(rank: int, group: GroupView, trace: Trace, waited: Seconds) -> Straggler | None:
    """How much longer than `rank` the others wait, in the operations of one group in which they wait at all."""
    lags: dict[int, float] = {}
    least = 0
    between = _between_steps(group.lanes[rank], trace)
    for sequence, seconds in waited.items():
        if sequence in between:
            continue
        others = [wait for other, wait in seconds.items() if other != rank]
        if rank in seconds and others and median(others) > VICTIM_SECONDS:
            lags[sequence] = median(others) - seconds[rank]
            least += seconds[rank] <= min(others) + VICTIM_SECONDS
    if len(lags) < LEAST_PAUSES or len(group.lanes[rank].sequences) < LEAST_OPERATIONS:
        return None
    times = sorted(trace.created_ns[group.lanes[rank].at(sequence)[0]] / 1e9 for sequence in lags)
    period = (times[-1] - times[0]) / max(1, len(times) - 1)
    return Straggler(rank, group, median(lags.values()), period, least, len(lags))


def _between_steps(lane: Lane, trace: Trace) -> frozenset[int]:
    """Return the barriers of a rank that calls what exchanges data more often: not each step has one."""
    kinds = {kind for kind, signature in enumerate(trace.signatures) if signature.op == "barrier"}
    if 2 * sum(kind in kinds for kind in trace.signature) >= len(trace):
        return frozenset()
    places = zip(lane.sequences, lane.positions, strict=True)
    return frozenset(sequence for sequence, position in places if trace.signature[position] in kinds)
