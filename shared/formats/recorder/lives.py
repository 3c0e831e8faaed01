"""Groups that were made again in one process, as after an abort: their names repeat, their sequences begin anew.

A process gives each group a number of its own (`pg_id`). Where a later number has the name and description of an
earlier one, the earlier group is gone: no two groups of a process have one name at a time. Numbers whose records
alternate are of groups that exist together, whatever they are called.
"""

from array import array
from collections.abc import Sequence
from itertools import compress

Columns = dict[str, "array[int]"]


def of_last_lives(
    columns: Columns, told: Sequence[tuple[str, int]], order: Sequence[int]
) -> tuple[Columns, dict[str, int]]:
    """Leave out what groups did before they were made again, and return the group of each number that is left.

    `told`: number and group of each kind of record; `order`: the kind of each record.
    """
    positions = range(len(order))
    ends = dict(zip(order, positions, strict=True))
    begins = dict(zip(reversed(order), reversed(positions), strict=True))
    groups = {told[at][0]: told[at][1] for at in sorted(ends, key=ends.__getitem__)}
    spans: dict[str, tuple[int, int]] = {}
    for at, end in ends.items():
        begin, before = spans.get(told[at][0], (len(order), 0))
        spans[told[at][0]] = min(begin, begins[at]), max(before, end)
    newest: dict[int, str] = {}
    for number, group in groups.items():
        known = newest.get(group)
        newest[group] = number if known is None or spans[known][1] < spans[number][1] else known
    former = {number for number, group in groups.items() if spans[number][1] < spans[newest[group]][0]}
    if not former:
        return columns, groups
    keep = [told[at][0] not in former for at in order]
    kept = {name: array(column.typecode, compress(column, keep)) for name, column in columns.items()}
    return kept, {number: group for number, group in groups.items() if number not in former}
