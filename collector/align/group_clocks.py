"""How far the clocks of ranks are apart, by what they did together: nodes need not agree on the time.

Nobody leaves an operation before the last has come. So what a rank issues next, by its own clock, is not earlier than
any other's arrival by that one's: each common operation bounds the difference of two clocks from both sides. Clocks
that may agree within these bounds are taken to. Where the bounds lie far apart otherwise, or cross (nobody waited for
anybody there), the clocks are not known.
"""

from bisect import bisect_right
from collections.abc import Mapping

from collector.align.groups.table import GroupView
from collector.align.thresholds import LOOSEST_NS
from shared.wire.trace import Trace


def ahead_of_first(
    groups: tuple[GroupView, ...], traces: dict[int, Trace], nodes: Mapping[int, str | None]
) -> dict[int, int] | None:
    """Return by how many nanoseconds each rank's clock is ahead of the lowest rank's; None where that is not known.

    `nodes`: where each rank runs, as far as known. Ranks of one node share a clock.
    """
    first = min(traces)
    issued = {rank: sorted(trace.created_ns) for rank, trace in traces.items()}
    ahead: dict[int, int] = {}
    by_node: dict[str, int] = {}
    for rank in sorted(traces):
        node = nodes.get(rank)
        found = 0 if rank == first else by_node.get(node) if node is not None else None
        if found is None:
            found = _between(rank, first, groups, traces, issued)
        if found is None:
            return None
        ahead[rank] = found
        if node is not None:
            by_node.setdefault(node, found)
    return ahead


def _between(
    rank: int, first: int, groups: tuple[GroupView, ...], traces: dict[int, Trace], issued: dict[int, list[int]]
) -> int | None:
    least: list[int] = []
    most: list[int] = []
    for group in groups:
        if rank not in group.lanes or first not in group.lanes:
            continue
        mine, theirs = group.lanes[rank], group.lanes[first]
        for sequence in set(mine.sequences) & set(theirs.sequences):
            came = traces[rank].created_ns[mine.at(sequence)[0]]
            first_came = traces[first].created_ns[theirs.at(sequence)[0]]
            went, first_went = _after(issued[rank], came), _after(issued[first], first_came)
            most += [] if went is None else [went - first_came]
            least += [] if first_went is None else [came - first_went]
    if not least or not most:
        return None
    low, high = max(least), min(most)
    if low <= 0 <= high:  # they may agree; if they do not, late ranks look less late, and nobody else does
        return 0
    return (low + high) // 2 if 0 <= high - low <= LOOSEST_NS else None


def _after(times: list[int], at: int) -> int | None:
    index = bisect_right(times, at)
    return times[index] if index < len(times) else None
