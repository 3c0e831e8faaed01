"""Step 2 again, on a job that moves: is one rank always the one the others wait for?

In a synchronous job every rank of a group leaves an operation together, so the time from a rank's arrival to the
last arrival is time it spent waiting. A straggler waits for nobody while everybody else waits for it; in a
balanced job the waiting is spread. Sums over all groups keep a straggler's partners, who arrive late in other
groups because they waited for it, from being blamed.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from collector.diagnose.groups import GroupView
from shared.trace import Trace

LEAST_SEQUENCES = 4
"""Fewer common operations than this tell nothing about a habit."""
STRAGGLER_SHARE = 0.15
"""A straggler waits for less than this share of the time …"""
VICTIM_SHARE = 0.30
"""… while the others, in the median, wait for more than this share …"""
VICTIM_SECONDS = 0.020
"""… and for more than this long each time it matters."""


@dataclass(frozen=True)
class Straggler:
    """One rank that the others wait for, over the last `sequences` operations of `group`."""

    rank: int
    group: GroupView
    lag_seconds: float
    period_seconds: float
    last_in: int
    sequences: int


def find_straggler(groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> Straggler | None:
    """Return the one rank that makes the others wait by a margin, or None."""
    waited: dict[int, float] = defaultdict(float)
    span = 0.0
    for group in groups:
        arrivals = _arrivals(group, traces)
        times = [at for by_rank in arrivals.values() for at in by_rank.values()]
        span = max(span, max(times, default=0.0) - min(times, default=0.0))
        for by_rank in arrivals.values():
            last = max(by_rank.values())
            for rank, at in by_rank.items():
                waited[rank] += last - at
    if span <= 0 or len(waited) < 2:
        return None
    slowest = min(waited, key=lambda rank: (waited[rank], rank))
    others = [seconds / span for rank, seconds in waited.items() if rank != slowest]
    if waited[slowest] / span > STRAGGLER_SHARE or median(others) < VICTIM_SHARE or min(others) < VICTIM_SHARE / 2:
        return None
    return _described(slowest, groups, traces)


def _arrivals(group: GroupView, traces: dict[int, Trace]) -> dict[int, dict[int, float]]:
    """Seconds at which each rank issued each sequence that all lanes still hold and have left behind."""
    common = set.intersection(*(set(lane.sequences) for lane in group.lanes.values())) if group.lanes else set()
    if len(group.lanes) < 2 or len(common) < LEAST_SEQUENCES:
        return {}
    return {
        sequence: {rank: traces[rank].created_ns[lane.at(sequence)[0]] / 1e9 for rank, lane in group.lanes.items()}
        for sequence in common
    }


def _described(rank: int, groups: tuple[GroupView, ...], traces: dict[int, Trace]) -> Straggler | None:
    """Show the straggler in the group where it lags most."""
    shown = [
        _in_group(rank, group, arrivals)
        for group in groups
        if rank in group.lanes and (arrivals := _arrivals(group, traces))
    ]
    best = max(shown, key=lambda straggler: (straggler.lag_seconds, len(straggler.group.members)), default=None)
    if best is None or best.lag_seconds < VICTIM_SECONDS or best.last_in * 2 < best.sequences:
        return None
    return best


def _in_group(rank: int, group: GroupView, arrivals: dict[int, dict[int, float]]) -> Straggler:
    lags = [by_rank[rank] - min(at for r, at in by_rank.items() if r != rank) for by_rank in arrivals.values()]
    late = sum(
        by_rank[rank] >= median(by_rank.values()) and lag > 0
        for by_rank, lag in zip(arrivals.values(), lags, strict=True)
    )
    firsts = sorted(min(by_rank.values()) for by_rank in arrivals.values())
    period = (firsts[-1] - firsts[0]) / max(1, len(firsts) - 1)
    return Straggler(rank, group, median(lags), period, late, len(arrivals))
