"""Stacks of many ranks as few: equivalence classes, and the prefix tree that STAT made known.

The tree's nodes hold the set of ranks whose stacks pass through them, so that a thousand ranks read as a handful of
branches (Arnold et al., "Stack Trace Analysis for Large Scale Debugging", IPDPS 2007).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.roster import RankView, Roster
from collector.align.stacks.activity import Activity, activity_of, place
from shared.answer.diagnosis import Contract, Place, StackClass
from shared.isolation import costs_itself
from shared.rank_sets import FoldedRanks, fold
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Frame


class StackNode(Contract):
    """One frame of the merged tree with the ranks whose stacks pass through it."""

    place: Place
    ranks: FoldedRanks
    children: tuple["StackNode", ...] = Field(default=(), description="What these ranks called from here.")


def stack_classes(snapshots: Sequence[NodeSnapshot]) -> tuple[StackClass, ...]:
    """Group ranks that are at the same place, the largest class first."""
    roster = account_for_ranks(snapshots, Expected())
    return classes_of(roster, {view.rank: activity_of(view) for view in roster.present()})


@costs_itself(lambda roster, activities: ())
def classes_of(roster: Roster, activities: Mapping[int, Activity]) -> tuple[StackClass, ...]:
    together: dict[tuple[Frame, ...], list[int]] = defaultdict(list)
    same: dict[int, list[int]] = {}  # by the stacks themselves, which ranks share after a survey: each is read once
    for view in roster.present():
        if id(view.stacks) not in same:
            same[id(view.stacks)] = together[_main_stack(view)]
        same[id(view.stacks)].append(view.rank)
    together.pop((), None)
    ordered = sorted(together.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple(
        StackClass(ranks=fold(ranks), frames=tuple(map(place, frames)), label=label_of(ranks, activities))
        for frames, ranks in ordered
    )


def label_of(ranks: Sequence[int], activities: Mapping[int, Activity]) -> str:
    """Say what ranks at one place do; from one line each may wait for something of its own, of which few are named."""
    return " or ".join(list(dict.fromkeys(activities[rank].label for rank in ranks))[:_MOST_LABELS])


_MOST_LABELS = 2


def merge_tree(snapshots: Sequence[NodeSnapshot]) -> tuple[StackNode, ...]:
    """Merge the stacks that stand for the ranks into prefix trees, one per outermost frame."""
    return tree_of(account_for_ranks(snapshots, Expected()))


@costs_itself(lambda roster: (), part="the tree of stacks")
def tree_of(roster: Roster) -> tuple[StackNode, ...]:
    """Merge the stacks of ranks that are accounted for already."""
    return merged([(view.rank, _main_stack(view)) for view in roster.present()])


def merged(stacks: Sequence[tuple[int, tuple[Frame, ...]]], depth: int = 0) -> tuple[StackNode, ...]:
    """Merge stacks, of which a rank may have several, into prefix trees."""
    following: dict[Frame, list[tuple[int, tuple[Frame, ...]]]] = defaultdict(list)
    for rank, frames in stacks:
        if depth < min(len(frames), _DEEPEST):
            following[frames[depth]].append((rank, frames))
    ranks = {frame: sorted({rank for rank, _ in passing}) for frame, passing in following.items()}
    return tuple(
        StackNode(place=place(frame), ranks=fold(ranks[frame]), children=merged(following[frame], depth + 1))
        for frame in sorted(ranks, key=lambda frame: (-len(ranks[frame]), ranks[frame][0], frame))
    )


_DEEPEST = 200
"""Frames of a deeper stack than this are cut: recursion in a job must not become recursion here."""


def _main_stack(view: RankView) -> tuple[Frame, ...]:
    stacks = view.stacks
    thread = None if stacks is None else view.thread_in(stacks)
    return () if stacks is None or thread is None else tuple(_without_addresses(stacks.stack(thread)))


def _without_addresses(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Leave out what lies in no file, and addresses in a file: they differ between processes at the same place."""
    for frame in frames:
        named = not frame.function.startswith("0x")
        if named or frame.file not in ("", "?"):
            yield frame if named else frame._replace(function="?")
