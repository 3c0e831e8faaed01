"""Sequence lanes: how far the ranks of each process group are, those alike on one line, suspect groups first."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collector.align.groups.sequence_tables import GroupTable, LaneMarks, group_tables
from collector.align.groups.table import GroupView
from collector.align.roster import Roster
from collector.judge.records.disputes import disputes_of
from collector.show.html.grid import family_of
from collector.show.text.frames import place_text
from collector.show.text.waits import group_text
from shared.answer.diagnosis import Diagnosis
from shared.isolation import costs_itself
from shared.rank_sets import fold, unfold

_MOST_GROUPS = 12
_MOST_LINES = 12
_MOST_STEPS = 20
"""Operations shown of one group: the last ones."""


@dataclass(frozen=True)
class LaneLine:
    """Ranks that are equally far. `steps`: for each sequence that is shown, `done`, `pending`, `issued` or `none`."""

    ranks: str
    issued: int
    completed: int
    operation: str
    call_site: str
    steps: tuple[str, ...]
    behind: bool
    guilty: bool


@dataclass(frozen=True)
class GroupLanes:
    """One process group. `sequences`: the numbers of the steps."""

    name: str
    about: str
    sequences: tuple[int, ...]
    lines: tuple[LaneLine, ...]
    more: int
    unknown: str


@dataclass(frozen=True)
class QuietGroups:
    """Groups of one family in which no rank is behind: counted, not drawn."""

    family: str
    count: int
    ranks: str


@costs_itself(lambda *_: ((), ()), part="the drawing of operations")
def draw_lanes(
    groups: tuple[GroupView, ...], roster: Roster, diagnosis: Diagnosis, culprits: frozenset[int]
) -> tuple[tuple[GroupLanes, ...], tuple[QuietGroups, ...]]:
    """Return the groups to show, and what the others are."""
    differing = {each.group.ref: each.sequence for each in disputes_of(groups, roster.traces)}
    named = {finding.group for finding in diagnosis.findings}
    in_question = {group.ref for group in groups if group.ref in named or group.ref in differing or _is_apart(group)}
    ordered = sorted(
        groups, key=lambda group: (group.ref not in named, group.ref not in in_question, -len(group.lanes))
    )
    shown = ordered[: min(_MOST_GROUPS, max(len(in_question), 2))]
    quiet: dict[str, list[GroupView]] = defaultdict(list)
    for group in ordered[len(shown) :]:
        quiet[family_of(group.ref)].append(group)
    return tuple(_group(table, culprits) for table in group_tables(shown, roster, differing)), tuple(
        QuietGroups(family, len(same), fold({rank for group in same for rank in group.members}))
        for family, same in quiet.items()
    )


def _is_apart(group: GroupView) -> bool:
    """Are its ranks not all equally far, or is one in an operation?"""
    lanes = group.lanes.values()
    return len({lane.issued for lane in lanes}) > 1 or any(lane.pending for lane in lanes)


def _group(table: GroupTable, culprits: frozenset[int]) -> GroupLanes:
    last = max([table.issued_most, *(sequence for lane in table.lanes for sequence in lane.pending)])
    first = max(min((lane.completed for lane in table.lanes), default=last) - 2, last - _MOST_STEPS + 1, 1)
    sequences = tuple(range(min(first, last), last + 1))
    behind = frozenset(unfold(table.behind))
    alike: dict[tuple[object, ...], list[LaneMarks]] = defaultdict(list)
    for lane in table.lanes:
        alike[lane.issued, lane.completed, lane.pending, lane.op, lane.call_site, lane.rank in culprits].append(lane)
    lines = [_line(lanes, sequences, behind, culprits) for lanes in alike.values()]
    lines.sort(key=lambda line: (not line.guilty, line.issued, line.completed, line.ranks))
    about = f"issued up to #{table.issued_most}" + (", members inferred" if table.members_inferred else "")
    if table.differ is not None:
        about += f"; the operations differ at #{table.differ}"
    return GroupLanes(
        name=group_text(table.group),
        about=about,
        sequences=sequences,
        lines=tuple(lines[:_MOST_LINES]),
        more=len(lines) - _MOST_LINES,
        unknown=table.unknown,
    )


def _line(
    lanes: Sequence[LaneMarks], sequences: Sequence[int], behind: frozenset[int], culprits: frozenset[int]
) -> LaneLine:
    ranks, first = [lane.rank for lane in lanes], lanes[0]
    return LaneLine(
        ranks=fold(ranks),
        issued=first.issued,
        completed=first.completed,
        operation=f"#{first.op_sequence} {first.op}" if first.op else "",
        call_site="" if first.call_site is None else place_text(first.call_site),
        steps=tuple(_step(sequence, first) for sequence in sequences),
        behind=behind.issuperset(ranks),
        guilty=not culprits.isdisjoint(ranks),
    )


def _step(sequence: int, lane: LaneMarks) -> str:
    if sequence in lane.pending:
        return "pending"
    if sequence <= lane.completed:
        return "done"
    return "issued" if sequence <= lane.issued else "none"
