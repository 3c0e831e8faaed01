"""Step 2 on a job that moves: how long every rank waits in its operations.

Where the recorder knows when operations were completed, a rank waits in each from the time it issued it, or from the
end of the one before if that is later, to its end: all by its own clock, and what was issued in one burst does not
count one pause twice. Where it does not (Gloo), waiting lasts from a rank's arrival to the last arrival.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from collector.diagnose.clocks import ahead_of_first
from collector.diagnose.groups import GroupView
from shared.trace import Trace

LEAST_OPERATIONS = 4
"""Fewer operations than this tell nothing about a habit."""

Operation = tuple[int, int]
"""(index of the group, sequence)."""


@dataclass(frozen=True)
class Waiting:
    """Which share of the time each rank waited, and how many seconds in which collective."""

    share: dict[int, float]
    seconds: dict[Operation, dict[int, float]]


def waiting_of(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> Waiting | None:
    """Return who waits how long, None where the records do not tell. `nodes`: where each rank runs, if known."""
    if all(sum(map(bool, trace.completed_ns)) >= LEAST_OPERATIONS for trace in traces.values()):
        return _by_completion(groups, traces)
    return _by_arrival(groups, traces, nodes)


def _by_completion(groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> Waiting | None:
    share: dict[int, float] = {}
    seconds: dict[Operation, dict[int, float]] = defaultdict(dict)
    for rank, trace in traces.items():
        waits, span = _own_waits(trace)
        if span <= 0:
            return None
        share[rank] = sum(waits.values()) / span
        for index, group in enumerate(groups):
            lane = group.lanes.get(rank)
            for sequence, position in zip(lane.sequences, lane.positions, strict=True) if lane is not None else ():
                if position in waits:
                    seconds[index, sequence][rank] = waits[position]
    return Waiting(share, seconds)


def _own_waits(trace: Trace) -> tuple[dict[int, float], float]:
    """Return (seconds waited by position, seconds from the first completion to the last), by the rank's own clock."""
    times = zip(trace.completed_ns, trace.created_ns, range(len(trace)), strict=True)
    rows = sorted((done, made, position) for done, made, position in times if done and made)
    waits = {
        position: max(0, done - max(made, before)) / 1e9 for (before, _, _), (done, made, position) in pairwise(rows)
    }
    return waits, (rows[-1][0] - rows[0][0]) / 1e9


def _by_arrival(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> Waiting | None:
    arrivals = _arrivals(groups, traces, nodes)
    if len(arrivals) < LEAST_OPERATIONS:
        return None
    left: dict[int, int] = defaultdict(int)
    waited: dict[int, float] = defaultdict(float)
    seconds: dict[Operation, dict[int, float]] = {}
    for operation, came in sorted(arrivals.items(), key=lambda item: (max(item[1].values()), item[0])):
        last = max(came.values())
        seconds[operation] = {rank: max(0, last - max(at, left[rank])) / 1e9 for rank, at in came.items()}
        for rank, wait in seconds[operation].items():
            waited[rank] += wait
            left[rank] = max(left[rank], last)
    times = [at for came in arrivals.values() for at in came.values()]
    span = (max(times) - min(times)) / 1e9
    return Waiting({rank: wait / span for rank, wait in waited.items()}, seconds) if span > 0 else None


def _arrivals(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> dict[Operation, dict[int, int]]:
    """When each rank issued what all members still hold, in nanoseconds of the lowest rank's clock."""
    ahead = ahead_of_first(groups, traces, nodes)
    arrivals: dict[Operation, dict[int, int]] = {}
    for index, group in enumerate(groups) if ahead is not None else ():
        common = set.intersection(*(set(lane.sequences) for lane in group.lanes.values())) if group.lanes else set()
        for sequence in common if len(group.lanes) > 1 else ():
            arrivals[index, sequence] = {
                rank: traces[rank].created_ns[lane.at(sequence)[0]] - (ahead or {}).get(rank, 0)
                for rank, lane in group.lanes.items()
            }
    return arrivals
