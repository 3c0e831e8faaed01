"""Step 4's second opinion: groups of one role run the same program, so they may decide what is a tie in one of them.

`tp0` and `tp1` of two replicas issue the same operations in the same order. Where the two members of `tp0` disagree,
the one that does what all of `tp1` does is right. Siblings that did other things before are no witnesses: stages
of a pipeline have groups of one role, too, and other programs.
"""

from dataclasses import replace

from collector.align.groups.process_groups import siblings_of
from collector.align.groups.table import GroupView
from collector.align.thresholds import COMPARED_BEFORE, LEAST_AGREEING, LEAST_EARLIER
from collector.judge.records.compare_sequences import Mismatch
from shared.isolation import costs_itself
from shared.rank_sets import fold


@costs_itself(lambda mismatch, groups: mismatch)
def settled_by_siblings(mismatch: Mismatch, groups: tuple[GroupView, ...]) -> Mismatch:
    """Return the mismatch with culprits, where all siblings of its group agree with one side; else as it was."""
    group, at = mismatch.group, mismatch.sequence
    agreeing = [
        (rank, sibling)
        for sibling in siblings_of(group, groups)
        for rank in sibling.lanes
        if _same_before(sibling, rank, mismatch)
    ]
    witnesses = [rank for rank, _ in agreeing]
    said = {sibling.facts_at(rank, at) for rank, sibling in agreeing} - {()}
    if len(witnesses) < LEAST_AGREEING or len(said) != 1:
        return mismatch
    right = said.pop()
    culprits = tuple(rank for rank in mismatch.ranks if group.facts_at(rank, at) != right)
    if not culprits or len(culprits) == len(mismatch.ranks):
        return mismatch
    remark = f"ranks {fold(witnesses)}, in groups of the same role, do what {_others(mismatch, culprits)} did"
    sides = tuple(sorted(mismatch.sides, key=lambda side: side[0][0] in culprits))
    return replace(mismatch, sides=sides, culprits=culprits, certain=False, remarks=(*mismatch.remarks, remark))


def _others(mismatch: Mismatch, culprits: tuple[int, ...]) -> str:
    return "rank " + fold(rank for rank in mismatch.ranks if rank not in culprits)


def _same_before(sibling: GroupView, rank: int, mismatch: Mismatch) -> bool:
    """Has `rank` done in its own group, before that number, what the disputants did in theirs?"""
    compared, at = 0, mismatch.sequence
    for sequence in range(max(1, at - COMPARED_BEFORE), at):
        mine = sibling.facts_at(rank, sequence)
        theirs = {mismatch.group.facts_at(other, sequence) for other in mismatch.ranks} - {()}
        if mine and theirs:
            compared += 1
            if theirs != {mine}:
                return False
    return compared >= min(LEAST_EARLIER, at - 1)
