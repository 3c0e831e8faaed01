"""Step 4, afterwards: a rank that skipped an operation, or did one too many, is off by one from then on.

Sequence numbers count calls, so a skipped call shows up as a shift: what the rank calls #7 is what the others call #8.
Operations alone show it only where neighbours differ; call sites, where they are recorded, show where it began.
"""

from dataclasses import dataclass

from collector.align.groups.signature_rules import Facts, facts_of
from collector.align.groups.table import GroupView
from collector.align.stacks.user_frames import user_call
from collector.align.thresholds import COMPARED_FROM_SHIFT, FARTHEST_SHIFT
from shared.isolation import costs_itself
from shared.wire.stacks import Frame

_Token = tuple[tuple[Facts, ...], tuple[Frame, ...]]
"""What was issued, and from where; no frames where either side has none."""


@dataclass(frozen=True)
class Shift:
    """From `sequence` on, `rank` is `by` operations short of the others (negative: too many)."""

    rank: int
    sequence: int
    earliest: int
    """It may have begun as early as here: the operations from here to `sequence` look alike."""
    by: int
    op: str
    call_site: Frame | None
    """Of the first operation skipped, or of the first one too many."""

    def __str__(self) -> str:
        site = f" ({self.call_site.file}:{self.call_site.line})" if self.call_site is not None else ""
        what = f"{abs(self.by)} operations" if abs(self.by) > 1 else f"one {self.op}{site}"
        begun = f"#{self.sequence}" if self.earliest == self.sequence else f"#{self.earliest} to #{self.sequence}"
        verb = "skipped" if self.by > 0 else "issued in excess"
        return f"rank {self.rank} is shifted: it {verb} {what} at {begun}, and matches the others again after it"


@costs_itself(lambda *_: None)
def shift_of(group: GroupView, odd: int, typical: int) -> Shift | None:
    """Return where `odd` went out of step with `typical`, if its operations match again when moved; else None."""
    if odd not in group.lanes or typical not in group.lanes:
        return None
    with_sites = _has_sites(group, odd) and _has_sites(group, typical)
    mine, theirs = (_tokens(group, rank, with_sites=with_sites) for rank in (odd, typical))
    common = sorted(mine.keys() & theirs.keys())
    begun = next((sequence for sequence in common if mine[sequence] != theirs[sequence]), None)
    if begun is None:
        return None
    for by in sorted((d for d in range(-FARTHEST_SHIFT, FARTHEST_SHIFT + 1) if d), key=abs):
        if _matches(mine, theirs, begun, by):
            lacking = theirs if by > 0 else mine
            earliest = _first_alike(lacking, begun)
            token = lacking[begun]
            return Shift(odd, begun, earliest, by, token[0][-1][0], user_call(token[1]))
    return None


def _matches(mine: dict[int, _Token], theirs: dict[int, _Token], begun: int, by: int) -> bool:
    """Do my operations from `begun` on (after those in excess) equal theirs, moved by `by`?"""
    first = begun if by > 0 else begun - by
    pairs = [
        (mine[sequence], theirs[sequence + by])
        for sequence in range(first, first + COMPARED_FROM_SHIFT)
        if sequence in mine and sequence + by in theirs
    ]
    return len(pairs) >= 2 and all(a == b for a, b in pairs)


def _first_alike(tokens: dict[int, _Token], at: int) -> int:
    first = at
    while tokens.get(first - 1) == tokens[at]:
        first -= 1
    return first


def _has_sites(group: GroupView, rank: int) -> bool:
    trace = group.traces[rank]
    return any(trace.call_sites[trace.call_site[at]] for at in group.lanes[rank].positions)


def _tokens(group: GroupView, rank: int, *, with_sites: bool) -> dict[int, _Token]:
    lane, trace = group.lanes[rank], group.traces[rank]
    facts = [facts_of(signature) for signature in trace.signatures]
    tokens: dict[int, _Token] = {}
    for sequence, position in zip(lane.sequences, lane.positions, strict=True):
        before = tokens.get(sequence, ((), ()))[0]
        site = trace.call_sites[trace.call_site[position]] if with_sites else ()
        tokens[sequence] = ((*before, facts[trace.signature[position]]), site)
    return tokens
