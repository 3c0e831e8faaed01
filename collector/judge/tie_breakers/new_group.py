"""Steps 5 and 9, the store: of ranks that make a group, and of those who do not, the few are odd.

A new group is made by all ranks of the job, its members or not.
"""

from collections.abc import Sequence

from collector.align.observations import Observations
from shared.isolation import costs_itself


@costs_itself(lambda makers, others, observations: ())
def went_past(makers: Sequence[int], others: tuple[int, ...], observations: Observations) -> tuple[int, ...]:
    """Return `others` where they are few and all of `makers`, who wait in the store, make a group; else nobody."""
    many = len(others) < len(makers)
    return others if many and all(makes_group(rank, observations) for rank in makers) else ()


def makes_group(rank: int, observations: Observations) -> bool:
    """Does its stack show that it makes a group?"""
    return any(frame.function.rpartition(".")[2] == "new_group" for frame in observations.activities[rank].frames)
