"""Groups that were made again in one process, as after an abort: their names repeat, their sequences begin anew.

A process gives each group a number of its own (`pg_id`). Where a later number has the name and description of an
earlier one, the earlier group is gone: no two groups of a process have one name at a time.
"""

from collections.abc import Iterable, Mapping


def former_lives(spans: Mapping[str, tuple[int, int]], group_of: Iterable[tuple[str, int]]) -> set[str]:
    """Return the numbers of groups that were made again; `spans`: where records of each number begin and end.

    Numbers whose records alternate are of groups that exist together, whatever they are called.
    """
    numbers: dict[int, list[str]] = {}
    for number, group in group_of:
        numbers.setdefault(group, []).append(number)
    former = set()
    for of_one in numbers.values():
        newest = max(of_one, key=lambda number: spans[number][1])
        former |= {number for number in of_one if spans[number][1] < spans[newest][0]}
    return former
