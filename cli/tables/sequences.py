"""The table of sequence marks: equal ranks on one line, those behind marked."""

from cli.tables.table import table, text
from collector.align.groups.sequence_tables import GroupTable, LaneMarks
from collector.show.text.frames import place_text
from collector.show.text.printable import printable
from collector.show.text.waits import folded, group_text, ranks_text
from collector.show.views import SequencesView
from shared.rank_sets import fold, unfold

_HEADS = ("RANKS", "ISSUED", "COMPLETED", "PENDING", "OPERATION", "")


def sequences_table(view: SequencesView) -> str:
    """Return one table per process group."""
    if not view.groups:
        return "no flight record names a process group\n"
    return "\n".join(_group(group) for group in view.groups)


def _group(group: GroupTable) -> str:
    inferred = ", members inferred" if group.members_inferred else ""
    differ = "" if group.differ is None else f"; the operations differ at #{group.differ}"
    behind = f"; behind: {ranks_text(group.behind)}" if group.behind else differ or "; no rank is behind"
    unknown = f"; unknown: {ranks_text(group.unknown)}" if group.unknown else ""
    title = f"{group_text(group.group)}{inferred}: issued up to #{group.issued_most}{behind}{unknown}"
    return text([title, *table(_HEADS, _rows(group), indent=2)])


def _rows(group: GroupTable) -> list[tuple[str, ...]]:
    alike: dict[tuple[int, int, tuple[int, ...], str], list[int]] = {}
    for lane in group.lanes:
        alike.setdefault((lane.issued, lane.completed, lane.pending, _operation(lane)), []).append(lane.rank)
    behind = frozenset(unfold(group.behind))
    first = min((lane.oldest_kept for lane in group.lanes), default=1)
    return [
        (
            folded(fold(ranks)),
            _number(issued, first),
            _number(completed, first),
            ",".join(f"#{sequence}" for sequence in pending) or "-",
            printable(operation, most=160) or "-",
            "← behind" if behind.issuperset(ranks) else "",
        )
        for (issued, completed, pending, operation), ranks in sorted(alike.items(), reverse=True)
    ]


def _operation(lane: LaneMarks) -> str:
    """Return `#5 broadcast [8] at train_loop (train.py:32)`, as far as it is known."""
    at = "" if lane.call_site is None else f" at {place_text(lane.call_site)}"
    return f"#{lane.op_sequence} {lane.op}{at}" if lane.op else ""


def _number(sequence: int, first: int) -> str:
    """`first`: the oldest sequence of any rank, which is 0 where they count from 0."""
    return f"#{sequence}" if sequence >= min(first, 1) else "none"
