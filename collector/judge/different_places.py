"""Step 9, where all wait and not at the same place: who stands where, the fewest first.

Stacks that differ are the trace of a divergence more often than of a network that fails: one rank reduces where the
others synchronise. But a rank in an operation of its own may also wait for a partner in a smaller group, and that
partner be among the many. So the places are told whatever they are, and whether somebody is to blame is said elsewhere
(`by_stacks`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from collector.align.observations import Observations
from collector.align.roster import ByRank
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.tables.row_types import Doing
from collector.judge.marks.sides import Sides, sides_of
from shared.answer.diagnosis import StackEvidence
from shared.rank_sets import fold, ranks_in_words

_MOST_PLACES = 4
_EVERYBODYS = re.compile(r"(^|/)torch/(autograd/graph\.py$|distributed/(fsdp/|_composable/|_functional_collectives))")
"""Frames that wait for operations in which all members of a group take part, whose work handle does not say which."""


def places(ranks: Iterable[int], observations: Observations) -> Sides[str]:
    """Return in words in what ranks wait, and which of them there."""
    return _together(ranks, lambda rank: _in_words(observations.activities[rank]))


def lines(ranks: Iterable[int], observations: Observations) -> Sides[str]:
    """Return from which lines of the user's code ranks came to where they wait, and which of them from there."""
    users = observations.activities
    return _together(ranks, lambda rank: "at an unknown line" if (u := users[rank].user) is None else f"at {place(u)}")


def _together(ranks: Iterable[int], in_words: Callable[[int], str]) -> Sides[str]:
    together: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        together[in_words(rank)].append(rank)
    return sides_of(together)


def _in_words(seen: Activity) -> str:
    if seen.op is not None:
        return f"in {seen.op}"
    by_name = waits_for_everybody(seen) and seen.frames[-1].function.startswith("wait")
    return f"in {seen.frames[-1].function}" if by_name else seen.label


def waits_for_everybody(seen: Activity) -> bool:
    """Does it wait by a work handle in an operation that all members of a group take part in?"""
    return seen.doing is Doing.WORK and bool(seen.frames) and _EVERYBODYS.search(seen.frames[-1].file) is not None


def places_in_words(sides: Sides[str]) -> str:
    """Say who is where: `rank 2 in barrier, ranks 0-1,3 in backward`."""
    told = [f"{ranks_in_words(ranks)} {what}" for what, ranks in sides.fewest_first]
    more = ["others elsewhere"] if len(told) > _MOST_PLACES else []
    return ", ".join([*told[:_MOST_PLACES], *more])


def _called_at(seen: Activity, what: str) -> str:
    return "" if seen.user is None or what.endswith(str(seen.user)) else f", called at {seen.user}"


def places_as_evidence(sides: Sides[str], activities: ByRank[Activity]) -> tuple[StackEvidence, ...]:
    """Show one stack of each place."""
    shown = [(what, ranks, activities[ranks[0]]) for what, ranks in sides.fewest_first]
    return tuple(
        StackEvidence(
            ranks=fold(ranks),
            text=f"{ranks_in_words(ranks)}: {what}" + _called_at(seen, what),
            thread=seen.thread,
            frames=tuple(map(place, seen.frames)),
        )
        for what, ranks, seen in shown[:_MOST_PLACES]
    )
