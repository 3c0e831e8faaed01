"""The behind rule: who has not come to what the others wait in, and by which edges the walk leads from there.

1. Where the source tells who waits: the operation that most wait in, and who is not past it and waits in none.
2. Where it tells calls alone: the last one that more than half of the group have made. Who is ahead need not wait.
3. Where more are behind than have come, the few who have may be the odd ones: nobody is named. One against one is a
   tie, but in a group of two.
4. Who is behind here and waits elsewhere is a victim: the walk to the root goes on there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from collector.align.groups.table import GroupView, Lag, behind
from collector.align.groups.wait_edges import Edge
from collector.align.thresholds import is_majority
from shared.wire.trace import Signature

_NCCL = "nccl"
"""The backend of whatever is counted outside of records."""


def lag_in(table: GroupView) -> Lag | None:
    """1, 2. Return who is behind in one group; None where nobody is."""
    waits, issued = table.waiting, table.issued
    if table.tells_waits:
        wanted = Counter(waits.values())
        awaited = max(wanted, key=lambda number: (wanted[number], -number), default=None)
        waiting = sorted(rank for rank, number in waits.items() if number == awaited)
    else:
        counts = Counter(issued.values()) + Counter(table.unnamed)
        awaited = reached_by_most(counts, table.size or counts.total())
        waiting = sorted(rank for rank, number in issued.items() if awaited is not None and number >= awaited)
    if awaited is None:
        return None
    late = tuple(sorted(rank for rank in behind(issued, awaited) if rank not in waits))
    missing = len(late) + sum(count for number, count in table.unnamed.items() if number < awaited)
    calls = [call for rank in waiting if (call := table.call(rank, awaited)) is not None and call.op is not None]
    return Lag(
        table,
        awaited,
        f"{calls[0].words if calls else 'the operation'}{table.at(awaited)}",
        tuple(waiting),
        late,
        came=len(waiting),
        missing=missing,
        lines=tuple((rank, line) for rank in (*waiting[:1], *late) if (line := table.lanes[rank].line) is not None),
    )


def reached_by_most(counts: Mapping[int, int], members: int) -> int | None:
    """Return the highest number that more than half of the members have reached; `counts`: how many stand at each."""
    reached = 0
    for number in sorted(counts, reverse=True):
        reached += counts[number]
        if is_majority(reached, members):
            return number
    return None


def edges_of(lags: Sequence[Lag]) -> tuple[Edge, ...]:
    """4. Return who waits for those behind, of several lags together.

    Who is behind by its own word does not wait because it is ahead by calls elsewhere, or because others say so.
    """
    late = {rank for lag in lags if lag.shows_waits for rank in lag.behind}
    return tuple(
        Edge(rank, lag.behind, lag.table, Signature(lag.op or "", _NCCL), lag.number)
        for lag in lags
        for rank in lag.waiting
        if lag.shows_waits or rank not in late
    )
