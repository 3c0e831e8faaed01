"""Rank sets: many ranks written as few characters, `0-3,7`.

The notation is the one cluster tools use for node and CPU lists (ClusterShell, Slurm, Linux cpusets).
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import sub
from typing import Annotated

from pydantic import AfterValidator, Field

from shared.errors import InvalidRankSet, quoted

MOST_RANKS = 4_194_304
"""A set larger than this is refused: no job is that large and the text may be hostile."""

_MOST_IN_WORDS = 48
"""Characters of a rank set in a sentence; data fields always carry all of it."""

_LONGEST_REMEMBERED = 65_536

_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_STEPS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})/([1-9][0-9]{0,8})")


def fold(ranks: Iterable[int]) -> str:
    """Write `ranks` as ascending spans: `fold([3, 0, 1, 7]) == "0-1,3,7"`; an empty set is `""`."""
    ordered = sorted(set(ranks))
    if not ordered:
        return ""
    ends = [at for at, gap in enumerate(map(sub, ordered[1:], ordered)) if gap > 1]
    starts = [0, *(i + 1 for i in ends)]
    spans = zip(starts, [*ends, len(ordered) - 1], strict=True)
    return ",".join(_span(ordered[first], ordered[last]) for first, last in spans)


def fold_in_steps(ranks: Iterable[int]) -> str:
    """Write `ranks` as one span with a step where that holds them all, `0-24/8`, else as `fold` does.

    Groups of data parallelism are so, with thousands of members. ClusterShell's notation; `out_of_steps` reads it.
    """
    ordered = sorted(set(ranks))
    if len(ordered) < 3:
        return fold(ordered)
    first, last, step = ordered[0], ordered[-1], ordered[1] - ordered[0]
    fits = last - first == step * (len(ordered) - 1)  # else the range may be as long as the sender claims
    regular = step > 1 and fits and ordered == list(range(first, last + 1, step))
    return f"{first}-{last}/{step}" if regular else fold(ordered)


def out_of_steps(text: str, *, most: int) -> str:
    """Return the folded form of what `fold_in_steps` wrote. Raises InvalidRankSet, also for more than `most` steps."""
    match = _STEPS.fullmatch(text)
    if match is None:
        return _refolded(text)
    span = range(int(match[1]), int(match[2]) + 1, int(match[3]))
    if len(span) > most:
        raise InvalidRankSet(f"rank set {quoted(text)} holds more than {most} ranks")
    return fold(span) if span.step == 1 else ",".join(map(str, span))


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
        return _once_folded(text) if len(text) <= _LONGEST_REMEMBERED else _refolded(text)
    except InvalidRankSet as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=4096)
def _once_folded(text: str) -> str:
    """Thousands of ranks report the same groups: each is normalised, and kept in memory, once."""
    return _refolded(text)


def _refolded(text: str) -> str:
    """Join spans that touch, without counting up what a few characters may claim."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(_spans(text)):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    if sum(last - first + 1 for first, last in joined) > MOST_RANKS:
        raise InvalidRankSet(f"rank set {quoted(text)} holds more than {MOST_RANKS} ranks")
    return ",".join(_span(first, last) for first, last in joined)


FoldedRanks = Annotated[
    str,
    AfterValidator(_canonical),
    Field(description="Global ranks, folded: ascending spans joined by commas.", examples=["0-1,3-7"]),
]
"""A rank set as it travels: validated and brought to its canonical form."""
