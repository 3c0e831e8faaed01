"""Step 2 on a job that moves: how long every rank waits in its operations.

Where the recorder knows when operations were completed, a rank waits in each from the time it issued it, or from the
end of the one before if that is later, to its end: all by its own clock, and what was issued in one burst does not
count one pause twice. Where it does not (Gloo), waiting lasts from a rank's arrival to the last arrival, which is known
of the ranks of one node: those of others need not have the same time.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collector.align.groups.table import GroupView
from collector.align.thresholds import LEAST_OPERATIONS
from shared.wire.trace import Trace

Operation = tuple[int, int]
"""(index of the group, sequence)."""

Seconds = dict[int, dict[int, float]]
"""How long each rank waited in the operations of one group, by sequence."""


@dataclass(frozen=True)
class Waiting:
    """Which share of the time each rank waited, and how long in the operations of a group, by the group's index."""

    share: dict[int, float]
    in_group: Callable[[int], Seconds]
    untold: frozenset[int] = frozenset()
    """Ranks that may have waited for others of whom there is no record."""


def waiting_of(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> Waiting | None:
    """Return who waits how long, None where the records do not tell. `nodes`: where each rank runs, if known."""
    if _complete(traces):
        return _by_completion(groups, traces)
    return _by_arrival(groups, traces, nodes)


def waited_by_completion(groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> Waiting | None:
    """Return the same where each rank's own records tell it, None elsewhere."""
    return _by_completion(groups, traces) if traces and _complete(traces) else None


def _complete(traces: dict[int, Trace]) -> bool:
    return all(sum(map(bool, trace.completed_ns)) >= LEAST_OPERATIONS for trace in traces.values())


def _by_completion(groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> Waiting | None:
    share: dict[int, float] = {}
    for rank, trace in traces.items():
        rows = _completed(trace)
        if not rows or rows[0][0] == rows[-1][0]:
            return None
        share[rank] = sum(_waits(rows).values()) / (rows[-1][0] - rows[0][0])
    return Waiting(share, lambda index: _in_operations(groups[index], traces))


def _in_operations(group: GroupView, traces: Mapping[int, Trace]) -> Seconds:
    seconds: Seconds = defaultdict(dict)
    for rank, lane in group.lanes.items():
        waits = _waits(_completed(traces[rank]))
        for sequence, position in zip(lane.sequences, lane.positions, strict=True):
            if position in waits:
                seconds[sequence][rank] = waits[position] / 1e9
    return seconds


_Row = tuple[int, int, int]
"""When an operation was completed and issued, by the rank's own clock, and its position in the record."""


def _completed(trace: Trace) -> list[_Row]:
    rows = sorted(zip(trace.completed_ns, trace.created_ns, range(len(trace)), strict=True))
    return [row for row in rows if row[0] and row[1]]


def _waits(rows: list[_Row]) -> dict[int, int]:
    """Return the nanoseconds waited in each operation but the first, by position."""
    waits: dict[int, int] = {}
    before = rows[0][0]
    for done, made, position in rows[1:]:
        begun = made if made > before else before
        waits[position] = done - begun if done > begun else 0
        before = done
    return waits


def _by_arrival(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> Waiting | None:
    arrivals = _arrivals(groups, traces, nodes)
    if len(arrivals) < LEAST_OPERATIONS:
        return None
    left: dict[int, int] = defaultdict(int)
    waited: dict[int, float] = defaultdict(float)
    alone = frozenset(rank for group in groups if (rank := _only_recorded(group)) is not None)
    seconds: dict[int, Seconds] = defaultdict(dict)
    for (index, sequence), came in sorted(arrivals.items(), key=lambda item: (max(item[1].values()), item[0])):
        last = max(came.values())
        waits = {rank: max(0, last - max(at, left[rank])) / 1e9 for rank, at in came.items()}
        seconds[index][sequence] = waits
        for rank, wait in waits.items():
            waited[rank] += wait
            left[rank] = max(left[rank], last)
    times = [at for came in arrivals.values() for at in came.values()]
    span = (max(times) - min(times)) / 1e9
    return (
        Waiting({rank: wait / span for rank, wait in waited.items()}, lambda index: seconds[index], alone)
        if span > 0
        else None
    )


def _only_recorded(group: GroupView) -> int | None:
    """The one member of a group, if others have no record that shows how long it waited for them."""
    only = next(iter(group.lanes)) if len(group.lanes) == 1 else None
    return only if group.inferred or len(group.members) > 1 else None


def _arrivals(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> dict[Operation, dict[int, int]]:
    """When each rank issued what all members still hold, by the clock of the one node that they are on."""
    arrivals: dict[Operation, dict[int, int]] = {}
    on = {nodes.get(rank) for rank in traces}
    for index, group in enumerate(groups) if len(on) == 1 and None not in on else ():
        common = set.intersection(*(set(lane.sequences) for lane in group.lanes.values())) if group.lanes else set()
        for sequence in common if len(group.lanes) > 1 else ():
            arrivals[index, sequence] = {
                rank: traces[rank].created_ns[lane.at(sequence)[0]] for rank, lane in group.lanes.items()
            }
    return arrivals
