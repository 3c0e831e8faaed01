"""The behind rule: who has not come to what the others wait in, and the walk from there to those who are at fault.

1. Where the source tells who waits: the operation that most wait in, and who is not past it and waits in none.
2. Where it tells calls alone: the last one that more than half of the group have made. Who is ahead need not wait.
3. Where more are behind than have come, the few who have may be the odd ones: nobody is named. One against one is a
   tie, but in a group of two.
4. Who is behind here and waits elsewhere is a victim: the walk to the root goes on there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from collector.align.marks.table import Lag, MarkTable, behind
from collector.align.thresholds import is_majority


def lag_in(table: MarkTable) -> Lag | None:
    """1, 2. Return who is behind by the marks of one group; None where nobody is."""
    waits = table.waiting
    issued, counts = table.issued, Counter(table.issued.values()) + Counter(table.unnamed)
    if table.tells_waits:
        wanted = Counter(waits.values())
        awaited = max(wanted, key=lambda number: (wanted[number], -number), default=None)
        waiting = sorted(rank for rank, number in waits.items() if number == awaited)
    else:
        awaited = reached_by_most(counts, table.size or counts.total())
        waiting = sorted(rank for rank, number in issued.items() if awaited is not None and number >= awaited)
    if awaited is None:
        return None
    late = tuple(sorted(rank for rank in behind(issued, awaited) if rank not in waits))
    missing = len(late) + sum(count for number, count in table.unnamed.items() if number < awaited)
    called = [call for rank in waiting if (call := table.call(rank, awaited)) is not None and call.op is not None]
    return Lag(
        witness=table.witness,
        what=f"{called[0].words if called else 'the operation'}{table.at(awaited)}",
        waiting=tuple(waiting),
        behind=late,
        came=len(waiting),
        missing=missing,
        tied=len(waiting) == missing == 1 and not table.is_pair,
        op=called[0].op if called else table.op,
        number=awaited,
        group=table.ref((*waiting, *late)),
        tells_waits=table.tells_waits,
        issued=issued,
        unnamed=table.unnamed,
        lines=tuple((rank, line) for rank in (*waiting[:1], *late) if (line := table.marks[rank].line) is not None),
    )


def reached_by_most(counts: Mapping[int, int], members: int) -> int | None:
    """Return the highest number that more than half of the members have reached; `counts`: how many stand at each."""
    reached = 0
    for number in sorted(counts, reverse=True):
        reached += counts[number]
        if is_majority(reached, members):
            return number
    return None


def may_be_named(lag: Lag) -> bool:
    """3. Are those behind known, and are they not more than those who have come?"""
    return bool(lag.behind) and lag.missing <= lag.came and not lag.tied


def waiters_in(lag: Lag, lags: Iterable[Lag]) -> tuple[int, ...]:
    """4. Return who waits for those behind, of several lags together.

    Who is behind by marks of its own does not wait because it is ahead by calls elsewhere, or because others say so.
    """
    late = {rank for each in lags if each.shows_waits for rank in each.behind}
    return tuple(rank for rank in lag.waiting if lag.shows_waits or rank not in late)
