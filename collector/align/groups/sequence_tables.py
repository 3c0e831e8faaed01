"""Sequence tables: for each group, how far each rank has got and who is behind."""

from collections.abc import Iterable, Mapping

from pydantic import Field

from collector.align.groups.table import NONE, GroupView
from collector.align.roster import RankView, Roster
from collector.align.stacks.activity import activity_of, place
from collector.align.stacks.user_frames import is_user_frame
from shared.answer.diagnosis import Contract, GroupRef, Place
from shared.rank_sets import FoldedRanks, fold
from shared.wire.trace import Record, Signature


class LaneMarks(Contract):
    """One rank's collectives on one group. Sequences count from 1; 0: none yet. torchcomms counts from 0; -1: none."""

    rank: int
    issued: int
    completed: int
    oldest_kept: int = Field(description="The lowest sequence that its ring buffer still holds.")
    pending: tuple[int, ...] = Field(default=(), description="Issued and not completed, at most the first eight.")
    op: str = Field(default="", description="The oldest operation that is pending, else the one last issued.")
    op_sequence: int | None = None
    call_site: Place | None = Field(default=None, description="Where the user's code called that operation.")


class GroupTable(Contract):
    """One group: marks per rank, and who is behind the furthest."""

    group: GroupRef
    members_inferred: bool = False
    issued_most: int
    behind: FoldedRanks = Field(default="", description="Ranks that have issued less than the furthest.")
    differ: int | None = Field(
        default=None, description="The sequence at which ranks issued different operations: none of them is behind."
    )
    unknown: FoldedRanks = Field(default="", description="Members whose progress is not known.")
    lanes: tuple[LaneMarks, ...] = ()


def group_tables(
    groups: Iterable[GroupView], roster: Roster, differing: Mapping[GroupRef, int]
) -> tuple[GroupTable, ...]:
    """Return one table per process group that any recorder mentions; `differing`: where its ranks disagree."""
    return tuple(_table(group, roster, differing.get(group.ref)) for group in groups)


def _table(group: GroupView, roster: Roster, differ: int | None) -> GroupTable:
    most = max(group.issued.values())
    none = NONE if any(lane.sequences[:1] == (0,) for lane in group.lanes.values()) else 0
    return GroupTable(
        group=group.ref,
        members_inferred=group.inferred,
        issued_most=max(none, most),
        behind=fold(group.absent_at(most) if differ is None else ()),
        differ=differ,
        unknown=fold(group.unknown),
        lanes=tuple(_marks(rank, group, roster.ranks[rank], none) for rank in group.lanes),
    )


def _marks(rank: int, group: GroupView, view: RankView, none: int) -> LaneMarks:
    lane = group.lanes[rank]
    told = lane.pending[:1] or lane.sequences[-1:]
    at = lane.at(told[0]) if told else ()
    record = None if view.trace is None or not at else view.trace.record(at[-1])
    return LaneMarks(
        rank=rank,
        issued=max(none, group.issued[rank]),
        completed=max(none, lane.completed),
        oldest_kept=max(none + 1, lane.first_kept),
        pending=lane.pending[:8],
        op="" if record is None else operation_in_words(record.signature),
        op_sequence=None if record is None else record.collective_seq,
        call_site=None if record is None else _call_site(record, view, pending=bool(lane.pending)),
    )


def _call_site(record: Record, view: RankView, *, pending: bool) -> Place | None:
    """By its record; without one, where the rank stands that waits in its only pending operation."""
    frames = record.call_site or (activity_of(view).frames if pending else ())
    user = next((frame for frame in reversed(frames) if is_user_frame(frame)), None)
    return None if user is None else place(user)


def operation_in_words(signature: Signature) -> str:
    """Return `all_gather [4096]`: the operation and what it is given."""
    sizes = " ".join("[" + ",".join(map(str, size)) + "]" for size in signature.input_sizes[:4])
    return f"{signature.op} {sizes}".rstrip()
