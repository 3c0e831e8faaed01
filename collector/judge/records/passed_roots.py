"""Step 4 for roots, which no recorder stores: those who are still in a call have the root that they passed in memory.

Who has come out of it may have passed either. A root belongs to the one operation of that name that is unfinished on
its rank, if two looks show that the rank has not gone on between the reading of its record and that of its memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from collector.align.groups.device_queues import unfinished
from collector.align.groups.signature_rules import TOWARDS_ROOT
from collector.align.groups.table import GroupView
from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.judge.marks.sides import sides_of
from collector.judge.records.compare_sequences import Mismatch
from shared.plural import ranks_with

_Passed = Mapping[int, list[int]]
"""By root, as a rank of the group: the ranks that pass it."""


def differing_roots(observations: Observations) -> Iterator[Mismatch]:
    """Iterate over the operations that some members are in with one root, and some with another."""
    for group in observations.groups:
        passed = _passed_in(group, observations)
        differing = [sequence for sequence, roots in passed.items() if len(roots) > 1]
        if differing:
            first = min(differing)
            yield _mismatch(group, first, passed[first])


def _passed_in(group: GroupView, observations: Observations) -> Mapping[int, _Passed]:
    """Return who passes which root, by the operation that they are in."""
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, lane in group.lanes.items():
        seen = observations.activities.get(rank)
        awaited = None if seen is None or seen.awaited is None else seen.awaited.awaited
        stands = observations.motion.by_rank.get(rank) not in (None, Motion.UNKNOWN, Motion.ADVANCED)
        if awaited is not None and awaited.root is not None and stands:
            trace = observations.traces[rank]
            alike = [at for at in unfinished(trace) if trace.signatures[trace.signature[at]].op == awaited.call]
            if len(alike) == 1 and alike[0] in lane.positions:
                found[trace.collective_seq[alike[0]]][awaited.root].append(rank)
    return found


def roots_in_words(group: GroupView | None, sequence: int | None, observations: Observations) -> str:
    """Say who passes which root; empty where that is known of nobody."""
    if group is None or sequence is None:
        return ""
    passed = _passed_in(group, observations).get(sequence, {})
    return ", ".join(f"{ranks_with(ranks, 'passes', 'pass')} {_named(root, group)}" for root, ranks in passed.items())


def _named(root: int, group: GroupView) -> str:
    return f"rank {group.order[root]}" if root < len(group.order) else f"group rank {root}"


def agree_on_root(group: GroupView | None, sequence: int | None, observations: Observations) -> bool:
    """Do all members pass one root to an operation, and all are in it?"""
    if group is None or sequence is None:
        return False
    passed = _passed_in(group, observations).get(sequence, {})
    return len(passed) == 1 and {*next(iter(passed.values()))} == {*group.order}


def _mismatch(group: GroupView, sequence: int, passed: _Passed) -> Mismatch:
    sides = sides_of(passed, silent=len({*group.order} - {rank for ranks in passed.values() for rank in ranks}))
    shown = []
    for root, ranks in sides.all:
        signature = group.parts_at(ranks[0], sequence)[-1]
        towards = "to" if signature.op in TOWARDS_ROOT else "from"
        shown.append((ranks, signature._replace(op=f"{signature.op} {towards} {_named(root, group)}")))
    remark = "the roots are as the ranks have them in memory: no recorder stores them"
    return Mismatch(group, sequence, tuple(shown), sides.odd, sides.decided, (remark,), of_roots=True)
