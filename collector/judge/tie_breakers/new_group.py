"""Steps 5 and 9, the store: of ranks that make a group, and of those who do not, the few are odd.

A new group is made by all ranks of the job, its members or not. PyTorch numbers groups as they are made: who makes
several in another order meets others in the wrong ones, and a member of both may be left waiting through no fault of
its own.
"""

from collections.abc import Collection, Sequence

from collector.align.observations import Observations
from collector.align.roster import Roster
from shared.isolation import costs_itself


@costs_itself(lambda makers, others, observations: ())
def went_past(makers: Sequence[int], others: tuple[int, ...], observations: Observations) -> tuple[int, ...]:
    """Return `others` where they are few and all of `makers`, who wait in the store, make a group; else nobody."""
    many = len(others) < len(makers)
    return others if many and all(makes_group(rank, observations) for rank in makers) else ()


@costs_itself(lambda makers, others, observations: True)
def others_make_groups(makers: Sequence[int], others: Collection[int], observations: Observations) -> bool:
    """Do `makers` make a group, and has one of `others` made as many? Then not these made one too many, perhaps."""
    most = max((group_threads(rank, observations.roster) for rank in others), default=0)
    return most > 0 and all(
        makes_group(rank, observations) and group_threads(rank, observations.roster) <= most for rank in makers
    )


def group_threads(rank: int, roster: Roster) -> int:
    """How many groups of Gloo's its process has, each with a thread; 0: none, or nobody looked."""
    process = roster.ranks[rank].process
    return 0 if process is None else process.group_threads.get("gloo_tcp_loop", 0)


def makes_group(rank: int, observations: Observations) -> bool:
    """Does its stack show that it makes a group?"""
    return any(frame.function.rpartition(".")[2] == "new_group" for frame in observations.activities[rank].frames)
