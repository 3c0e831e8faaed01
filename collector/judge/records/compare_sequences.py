"""Step 4 of the verdict: same group, same sequence, different operation.

Which parts of a signature must agree depends on the operation, by the table below; sizes are compared as numbers
of elements, because a library moves elements and not shapes. Which side is right is told by the rule for all marks.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from collector.align.groups.signature_rules import Facts, facts_of
from collector.align.groups.table import NONE, GroupView
from collector.align.thresholds import is_majority
from collector.judge.marks.sides import Sides, telling_difference
from shared.formats.recorder.coalesced import is_end
from shared.plural import counted
from shared.wire.trace import Signature, Trace


@dataclass(frozen=True)
class Mismatch:
    """The disagreement that matters in one group. `culprits` is empty where nothing tells which side is right."""

    group: GroupView
    sequence: int
    sides: tuple[tuple[tuple[int, ...], Signature], ...]
    """(ranks, one of their signatures), the largest side first."""
    culprits: tuple[int, ...]
    certain: bool = False
    """Do more than half of all members, those who are silent included, stand against the culprits?"""
    remarks: tuple[str, ...] = ()
    of_roots: bool = False
    """Is it the root alone in which they differ?"""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Everybody who has an opinion."""
        return tuple(sorted(rank for ranks, _ in self.sides for rank in ranks))


class Numbering:
    """Numbers that stand for the same `Facts` on all ranks of a job. Tables that ranks share are read once."""

    def __init__(self) -> None:
        self._numbers: dict[Facts, int] = {}
        self._tables: dict[int, list[int]] = {}

    def of(self, trace: Trace) -> list[int]:
        """Return a number for each row of a trace's table of signatures; the trace must outlive this."""
        table = trace.signatures
        if id(table) not in self._tables:
            self._tables[id(table)] = [self._numbers.setdefault(facts_of(one), len(self._numbers)) for one in table]
        return self._tables[id(table)]


def earliest_mismatch(group: GroupView, numbering: Numbering) -> Mismatch | None:
    """Return the first disagreement of `group`'s members that they have not got past, or None.

    Only sequences that a trace still holds are compared: what a ring buffer has overwritten is unknown.
    """
    comparable = _comparable(group)
    together = _together(group, comparable)
    if len(together) == 1:
        return None
    classes = _classes(together, group, numbering)
    if _all_agree(classes):
        return None
    opinions = _opinions(classes)
    silent = sum(rank not in comparable for rank in group.members)
    found = telling_difference(opinions, after=_passed(group, opinions), silent=silent)
    return None if found is None else _mismatch(group, *found)


def _comparable(group: GroupView) -> dict[int, Trace]:
    """Return the traces of the members, of flight records alone where there are any: others hold fewer facts."""
    own = {rank: group.traces[rank] for rank in group.lanes}
    return {rank: trace for rank, trace in own.items() if trace.is_recorded} or own


@dataclass(frozen=True)
class LikeMembers:
    """Members whose lanes hold the same sequences of the same operations."""

    ranks: tuple[int, ...]
    sequences: tuple[int, ...]
    facts: tuple[int, ...]
    """For each of `sequences`, a number that stands for the same `Facts` on all ranks."""
    is_gapless: bool


_Together = dict[tuple[int, bytes, int], list[int]]
"""Members by the identity of their lane, their signatures' column, and the identity of the table that it points to."""


def _together(group: GroupView, traces: dict[int, Trace]) -> _Together:
    """Put together who runs one program: such ranks share lanes (`lanes.cutters_for`) and often signatures."""
    seen: _Together = defaultdict(list)
    for rank, trace in traces.items():
        seen[id(group.lanes[rank]), trace.signature.tobytes(), id(trace.signatures)].append(rank)
    return seen


def _classes(together: _Together, group: GroupView, numbering: Numbering) -> list[LikeMembers]:
    """Put the members with equal lanes together: of thousands of ranks few differ, and each class is looked at once."""
    classes: dict[tuple[tuple[int, ...], tuple[int, ...], bool], list[int]] = defaultdict(list)
    for ranks in together.values():
        lane, trace = group.lanes[ranks[0]], group.traces[ranks[0]]
        facts = tuple(map(numbering.of(trace).__getitem__, map(trace.signature.__getitem__, lane.positions)))
        classes[lane.sequences, facts, lane.is_gapless].extend(ranks)
    return [LikeMembers(tuple(ranks), *alike) for alike, ranks in classes.items()]


def _all_agree(classes: list[LikeMembers]) -> bool:
    """The common case, told without looking at any record: gapless lanes that equal the longest where they overlap."""
    held = [one for one in classes if one.sequences]
    if not held:
        return True
    longest = max(held, key=lambda one: (len(one.facts), one.ranks))
    return all(one.is_gapless for one in held) and all(_agrees(one, longest) for one in held)


def _agrees(one: LikeMembers, reference: LikeMembers) -> bool:
    shift = one.sequences[0] - reference.sequences[0]
    mine, theirs = one.facts[max(0, -shift) :], reference.facts[max(0, shift) :]
    common = min(len(mine), len(theirs))
    return common == len(one.facts) and mine[:common] == theirs[:common]


_Opinions = dict[int, dict[tuple[int, ...], list[int]]]
"""By sequence and by what was issued there (several facts where operations are coalesced): by whom."""


def _opinions(classes: list[LikeMembers]) -> _Opinions:
    by_sequence: _Opinions = defaultdict(lambda: defaultdict(list))
    ends: list[tuple[int, tuple[int, ...], LikeMembers]] = []
    for one in classes:
        for sequence, rows in groupby(zip(one.sequences, one.facts, strict=True), key=itemgetter(0)):
            facts = tuple(fact for _, fact in rows)
            by_sequence[sequence][facts].extend(one.ranks)
            if sequence in (one.sequences[0], one.sequences[-1]):
                ends.append((sequence, facts, one))
    pieces = [each for each in ends if any(_is_piece(*each, other) for other in by_sequence[each[0]])]
    for sequence, facts, one in pieces:
        sides = by_sequence[sequence]
        sides[facts] = [rank for rank in sides[facts] if rank not in one.ranks]
        if not sides[facts]:
            del sides[facts]
    return by_sequence


def _is_piece(sequence: int, facts: tuple[int, ...], one: LikeMembers, whole: tuple[int, ...]) -> bool:
    """A batch whose head may be what the ring buffer has overwritten, or one that its caller is still putting together.

    Where something older is kept the ring has cut nothing: then a batch with its end lacks a part.
    """
    cut = sequence == one.sequences[0] and facts == whole[len(whole) - len(facts) :]
    unended = sequence == one.sequences[-1] and facts == whole[: len(facts)]
    return len(facts) < len(whole) and (cut or unended)


def _passed(group: GroupView, opinions: _Opinions) -> int:
    """The last sequence on which all members agreed and which they all have completed: what was before is over.

    Some operations differ rightly between ranks. Those that the group got past together hold nobody now.
    """
    everybody = len(group.lanes)
    pending = {sequence for lane in group.lanes.values() for sequence in lane.pending}
    return max(
        (
            sequence
            for sequence, sides in opinions.items()
            if len(sides) == 1 and sequence not in pending and len(next(iter(sides.values()))) == everybody
        ),
        default=NONE,
    )


def _mismatch(group: GroupView, sequence: int, sides: Sides[tuple[int, ...]]) -> Mismatch:
    wholes = [group.parts_at(ranks[0], sequence) for _, ranks in sides.all]
    shown, remarks = _shown(wholes) if max(map(len, wholes)) > 1 else ([whole[0] for whole in wholes], ())
    told = tuple((ranks, signature) for (_, ranks), signature in zip(sides.all, shown, strict=True))
    certain = sides.decided and is_majority(len(sides.all[0][1]), len(group.members))
    return Mismatch(group, sequence, told, sides.odd, certain, remarks)


def _shown(wholes: Sequence[tuple[Signature, ...]]) -> tuple[list[Signature], tuple[str, ...]]:
    """What of each side's batch to show, and a remark: the first part that differs, or all where one side has more."""
    ops = [whole[-1].op for whole in wholes]
    parts = [whole[:-1] if is_end(whole[-1].op) else whole for whole in wholes]
    of_each = zip(*(map(facts_of, side) for side in parts), strict=False)
    at = next((at for at, facts in enumerate(of_each) if len(set(facts)) > 1), None)
    if at is None:
        return [_all_of(side, whole[-1]) for side, whole in zip(parts, wholes, strict=True)], ()
    shown = [side[at] for side in parts]
    alike = len({part.op for part in shown}) == 1
    named = [
        whole if alike or part.op == whole else f"{part.op} in {whole}" for part, whole in zip(shown, ops, strict=True)
    ]
    remark = f"of each batch entry {at + 1} is shown, the first that differs"
    return [part._replace(op=op) for part, op in zip(shown, named, strict=True)], (remark,)


def _all_of(parts: tuple[Signature, ...], end: Signature) -> Signature:
    return end._replace(
        op=f"{end.op} of {counted(len(parts), 'part')}",
        input_sizes=tuple(size for part in parts for size in part.input_sizes),
        input_dtypes=tuple(dtype for part in parts for dtype in part.input_dtypes),
        output_sizes=tuple(size for part in parts for size in part.output_sizes),
        output_dtypes=tuple(dtype for part in parts for dtype in part.output_dtypes),
    )
