"""Horovod to 0.15: operations that wait, each with the ranks that have submitted it.

Ranks count from 0, and the check lists all that have come: who is not among them has not, up to the highest that any
list names. Ranks above that one are not known of.
"""

import re

HINT = " [ready ranks: "
# HorovodAllreduce_loss_0 [ready ranks: 3], HorovodAllreduce_dense_kernel_0 [ready ranks: 2, 0, 1]
_READY = re.compile(r" \[ready ranks: (\d{1,7}(?:, ?\d{1,7}){0,4000})\]")


def lacking(line: str) -> str | None:
    """Return who has not come to what most wait in, as `2, 3`; None where no list has a majority, or nobody lacks."""
    lists = [frozenset(map(int, ranks.split(","))) for ranks in _READY.findall(line)]
    if not lists:
        return None
    known = frozenset(range(max(map(max, lists)) + 1))
    most = max(lists, key=len)
    missing = known - most
    return ", ".join(map(str, sorted(missing))) if missing and len(most) > len(missing) else None
