"""Sequence tables: for each group, how far each rank has got and who is behind."""

from collections.abc import Sequence

from pydantic import Field

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.groups.process_groups import GroupView, line_up
from collector.align.groups.rank_sequences import NONE
from shared.answer.diagnosis import Contract, GroupRef
from shared.ranks import FoldedRanks, fold
from shared.wire.snapshot import NodeSnapshot


class LaneMarks(Contract):
    """One rank's collectives on one group. Sequences count from 1; 0: none yet. torchcomms counts from 0; -1: none."""

    rank: int
    issued: int
    completed: int
    oldest_kept: int = Field(description="The lowest sequence that its ring buffer still holds.")
    pending: tuple[int, ...] = Field(default=(), description="Issued and not completed, at most the first eight.")


class GroupTable(Contract):
    """One group: marks per rank, and who is behind the furthest."""

    group: GroupRef
    members_inferred: bool = False
    issued_most: int
    behind: FoldedRanks = Field(default="", description="Ranks that have issued less than the furthest.")
    unknown: FoldedRanks = Field(default="", description="Members whose progress is not known.")
    lanes: tuple[LaneMarks, ...] = ()


def group_tables(snapshots: Sequence[NodeSnapshot]) -> tuple[GroupTable, ...]:
    """Return one table per process group that any recorder mentions."""
    return tuple(_table(group) for group in line_up(account_for_ranks(snapshots, Expected())))


def _table(group: GroupView) -> GroupTable:
    most = max(lane.issued for lane in group.lanes.values())
    none = NONE if any(lane.sequences[:1] == (0,) for lane in group.lanes.values()) else 0
    return GroupTable(
        group=group.ref,
        members_inferred=group.inferred,
        issued_most=max(none, most),
        behind=fold(rank for rank, lane in group.lanes.items() if lane.issued < most),
        unknown=fold(group.unknown),
        lanes=tuple(
            LaneMarks(
                rank=rank,
                issued=max(none, lane.issued),
                completed=max(none, lane.completed),
                oldest_kept=max(none + 1, lane.first_kept),
                pending=lane.pending[:8],
            )
            for rank, lane in group.lanes.items()
        ),
    )
