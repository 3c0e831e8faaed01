"""Horovod's stall check: operations that wait for ranks that have not submitted them.

To 0.15 it lists who is ready. Ranks count from 0, and the check lists all that have come: who is not among them has
not, up to the highest that any list names. Ranks above that one are not known of.
From 0.16 on it lists who is missing, and what from. Where no operation lacks all of these, they wait for each other.
"""

import re
from collections.abc import Sequence

HINT = " [ready ranks: "
# HorovodAllreduce_loss_0 [ready ranks: 3], HorovodAllreduce_dense_kernel_0 [ready ranks: 2, 0, 1]
_READY = re.compile(r" \[ready ranks: (\d{1,7}(?:, ?\d{1,7}){0,4000})\]")
# Missing ranks:                                                  0.20 on; Stalled ranks: in 0.16 to 0.19
# 1: [HorovodAllreduce_dense_kernel_0, HorovodAllreduce_dense_bias_0 ...]        [0] 1: […] of a launcher that counts
HINTS_OF_MISSING = ("Missing ranks:", "Stalled ranks:")
_MISSING = re.compile(r"(?:Missing|Stalled) ranks:\s{0,4}(?P<rest>[^\n]*)$")
_ROW = re.compile(r"(?:.{0,80}<std(?:err|out)>:|\[\d{1,7}\] )?(?P<rank>\d{1,7})!?: \[(?P<ops>[^\]]*)")
_MOST_ROWS = 4096


def ready(line: str) -> dict[str, str] | None:
    """Return who has come to what most wait in, and who has not, as fields; None where nobody is known to lack.

    Where no list has a majority, who has not come is not told.
    """
    lists = [frozenset(map(int, ranks.split(","))) for ranks in _READY.findall(line)]
    if not lists:
        return None
    known = frozenset(range(max(map(max, lists)) + 1))
    most = max(lists, key=len)
    missing = known - most
    if not missing:
        return None
    came = {"ready": _listed(most)}
    return came | {"never_joined": _listed(missing)} if len(most) > len(missing) else came


def missing(lines: Sequence[str], number: int) -> dict[str, str] | None:
    """Return who is missing by the list that begins at a line, or who waits for each other, as fields."""
    head = _MISSING.search(lines[number])
    if head is None:
        return None
    rows: dict[int, frozenset[str]] = {}
    for line in (head["rest"], *lines[number + 1 : number + 1 + _MOST_ROWS]):
        row = _ROW.match(line)
        if row is not None:
            rows[int(row["rank"])] = frozenset(row["ops"].removesuffix("...").replace(" ", "").split(","))
        elif line.strip():
            break
    if not rows:
        return None
    lacked_by_all = frozenset.intersection(*rows.values())
    return {"never_joined" if lacked_by_all else "apart": _listed(rows)}


def _listed(ranks: Sequence[int] | frozenset[int] | dict[int, frozenset[str]]) -> str:
    return ", ".join(map(str, sorted(ranks)))
