"""Rank sets: many ranks written as few characters, `0-3,7`.

The notation is the one cluster tools use for node and CPU lists (ClusterShell, Slurm, Linux cpusets).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from shared.errors import InvalidRankSet, quoted

MOST_RANKS = 4_194_304
"""A set larger than this is refused: no job is that large and the text may be hostile."""

_MOST_IN_WORDS = 48
"""Characters of a rank set in a sentence; data fields always carry all of it."""

_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def fold(ranks: Iterable[int]) -> str:
    """Write `ranks` as ascending spans: `fold([3, 0, 1, 7]) == "0-1,3,7"`; an empty set is `""`."""
    ordered = sorted(set(ranks))
    if not ordered:
        return ""
    ends = [i for i, (a, b) in enumerate(pairwise(ordered)) if b != a + 1]
    starts = [0, *(i + 1 for i in ends)]
    spans = zip(starts, [*ends, len(ordered) - 1], strict=True)
    return ",".join(_span(ordered[first], ordered[last]) for first, last in spans)


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Name `ranks` in a sentence: `rank 3`, `ranks 0-2`, `no rank`."""
    named = sorted(set(ranks))
    folded = fold(named)
    if len(folded) > _MOST_IN_WORDS:
        folded = f"{folded[:_MOST_IN_WORDS].rpartition(',')[0]},… ({len(named)} ranks)"
    if len(named) < 2:
        return f"rank {folded}" if named else "no rank"
    return f"ranks {folded}"


def unfold(text: str) -> tuple[int, ...]:
    """Read a folded set back, ascending. Raises InvalidRankSet, which quotes the input."""
    ranks: set[int] = set()
    for first, last in _spans(text):
        if last - first >= MOST_RANKS - len(ranks):
            raise InvalidRankSet(f"rank set {quoted(text)} holds more than {MOST_RANKS} ranks")
        ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        match = _SPAN.fullmatch(part.strip())
        if match is None:
            raise InvalidRankSet(
                f"{quoted(text)} is not a rank set", advice="write ranks as 0-3,7: spans joined by commas"
            )
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise InvalidRankSet(f"in rank set {quoted(text)}, {first}-{last} runs backwards")
        yield first, last


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _canonical(text: str) -> str:
    try:
        return fold(unfold(text))
    except InvalidRankSet as error:
        raise ValueError(str(error)) from error


FoldedRanks = Annotated[
    str,
    AfterValidator(_canonical),
    Field(description="Global ranks, folded: ascending spans joined by commas.", examples=["0-1,3-7"]),
]
"""A rank set as it travels: validated and brought to its canonical form."""
