"""Stack classes: ranks at the same place, largest class first, those with a culprit always shown."""

from collections.abc import Sequence
from itertools import takewhile

from collector.show.text.frames import MOST_FRAMES, frame_lines
from collector.show.text.layout import Line, Span, Style, indented, line
from collector.show.text.printable import printable
from collector.show.text.waits import folded, ranks_text
from shared.answer.diagnosis import Diagnosis, Place, StackClass
from shared.answer.words import Kind
from shared.plural import counted
from shared.rank_sets import fold, unfold

MOST_CLASSES = 6
"""Classes shown in a verdict, beside those that hold a culprit."""


def culprits_of(diagnosis: Diagnosis) -> frozenset[int]:
    """Return every rank that any finding accuses: who is at work while others wait is accused of nothing."""
    accusing = (finding for finding in diagnosis.findings if finding.kind is not Kind.HELD_UP)
    return frozenset(rank for finding in accusing for rank in finding.culprit_ranks)


def shown_stacks(diagnosis: Diagnosis) -> frozenset[tuple[Place, ...]]:
    """Return the stacks of the classes that a verdict shows."""
    culprits = culprits_of(diagnosis)
    classes = enumerate(diagnosis.stack_classes)
    return frozenset(
        each.frames for at, each in classes if at < MOST_CLASSES or not culprits.isdisjoint(unfold(each.ranks))
    )


def class_lines(
    classes: Sequence[StackClass],
    width: int,
    *,
    culprits: frozenset[int] = frozenset(),
    most: int = MOST_CLASSES,
    most_frames: int = MOST_FRAMES,
) -> list[Line]:
    """Return each class: its ranks, what they do, and their frames; at most `most` beside those with a culprit."""
    members = [frozenset(unfold(each.ranks)) for each in classes]
    shown = [at for at, ranks in enumerate(members) if at < most or not culprits.isdisjoint(ranks)]
    lines: list[Line] = []
    for at in shown:
        lines.append(_head(classes[at], members[at], culprits))
        frames = classes[at].frames
        parts_at = _parting(frames, [each.frames for each in classes])
        lines.extend(indented(frame_lines(frames, width - 2, most=most_frames, parts_at=parts_at), 2))
    hidden = len(classes) - len(shown)
    if hidden:
        ranks = sum(len(members[at]) for at in range(len(classes)) if at not in set(shown))
        lines.append(line(f"… {hidden} more with {counted(ranks, 'rank')}; run `unhang stacks` to see all", Style.DIM))
    return lines


def _parting(frames: tuple[Place, ...], others: Sequence[tuple[Place, ...]]) -> int | None:
    """Return where ranks part: the first frame that is another one than in the largest class, or in the next one."""
    other = next((each for each in others if each != frames), None)
    if other is None:
        return None
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(frames, other, strict=False))
    at = sum(1 for _ in alike)
    return at if at < len(frames) else None


def _head(stack_class: StackClass, ranks: frozenset[int], culprits: frozenset[int]) -> Line:
    guilty = ranks & culprits
    whose = Span(ranks_text(stack_class.ranks), Style.BAD if guilty else Style.BOLD)
    label = f"  {printable(stack_class.label, most=120)}" if stack_class.label else ""
    number = f" ({len(ranks)})" if len(ranks) > 1 else ""
    return (whose, Span(number, Style.DIM), Span(label), Span(_mark(ranks, guilty), Style.BAD))


def _mark(ranks: frozenset[int], guilty: frozenset[int]) -> str:
    if not guilty:
        return ""
    return (
        "  ← culprit"
        if len(ranks) == 1
        else "  ← culprits"
        if guilty == ranks
        else f"  ← culprits {folded(fold(guilty))}"
    )
