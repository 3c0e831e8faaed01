"""Step 4 put together: the disagreements that hold the job, with what siblings and shifts add to them."""

from collections.abc import Collection
from dataclasses import replace

from collector.align.groups.table import GroupView
from collector.judge.records.compare_sequences import Mismatch, Numbering, earliest_mismatch
from collector.judge.records.unequal_sizes import unfit_exchange
from collector.judge.tie_breakers.sibling_groups import settled_by_siblings
from collector.judge.tie_breakers.skipped_call import shift_of


def disputes_of(groups: tuple[GroupView, ...], recorded: Collection[int]) -> list[Mismatch]:
    """Return one disagreement for each group that is held by one.

    `recorded`: ranks with a trace. Sizes that must fit each other are compared only where no member can be left out: a
    group whose members were inferred may have some among the ranks without one, and before its first operation is done
    among all ranks.
    """
    found, numbering = [], Numbering()
    all_recorded = all(rank in recorded for group in groups for rank in group.order)
    everybody = set(recorded).union(*(group.order for group in groups))
    for group in groups:
        mismatch = earliest_mismatch(group, numbering)
        settled = all_recorded and (group.is_settled or everybody <= set(group.order))
        if mismatch is None and (settled or not group.inferred):
            mismatch = unfit_exchange(group)
        if mismatch is not None and _still_matters(mismatch):
            told = mismatch if mismatch.culprits else settled_by_siblings(mismatch, groups)
            found.append(_with_shift(told))
    return found


def settled_disputes_of(groups: tuple[GroupView, ...]) -> list[Mismatch]:
    """Return the disagreements that hold nobody anymore: all have come out of the operation."""
    numbering = Numbering()
    found = (earliest_mismatch(group, numbering) for group in groups)
    return [mismatch for mismatch in found if mismatch is not None and not _still_matters(mismatch)]


def _still_matters(mismatch: Mismatch) -> bool:
    """A disagreement of a group that has nothing in flight is not what holds the job now."""
    return any(sequence >= mismatch.sequence for lane in mismatch.group.lanes.values() for sequence in lane.pending)


def _with_shift(mismatch: Mismatch) -> Mismatch:
    if len(mismatch.culprits) != 1:
        return mismatch
    odd = mismatch.culprits[0]
    typical = next(rank for ranks, _ in mismatch.sides for rank in ranks if rank != odd)
    shift = shift_of(mismatch.group, odd, typical)
    return mismatch if shift is None else replace(mismatch, remarks=(*mismatch.remarks, str(shift)))
