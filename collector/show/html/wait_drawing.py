"""The wait-for graph as a drawing: equal waits folded into one box, arrows towards the fault, a circle marked.

1. Ranks that wait for nobody stand on the right. Whoever waits for them stands left of them, and so on.
2. Of one column, ranks that wait in the same operation for the same boxes are one box.
3. A circle has no end: its ranks stand side by side, and an arc leads from the last back to the first.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from collector.show.text.printable import printable
from collector.show.text.waits import group_text, ranks_text, waits_of
from shared.answer.diagnosis import Finding, Wait
from shared.isolation import costs_itself
from shared.plural import counted
from shared.rank_sets import fold, unfold

_MOST_IN_COLUMN = 6
_MOST_COLUMNS = 8
_MOST_TEXT = 40
_CHARACTER = 7.3
_LINE = 17.0
_GAP_X, _GAP_Y = 64.0, 18.0


@dataclass(frozen=True)
class Box:
    """Ranks that wait alike, or wait for nobody."""

    key: int
    ranks: str
    lines: tuple[str, ...]
    guilty: bool
    in_circle: bool
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True)
class Arrow:
    """From those who wait to those whom they wait for: an SVG path, of numbers alone."""

    path: str
    in_circle: bool


@dataclass(frozen=True)
class WaitDrawing:
    """A drawing, and the same in sentences."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    sentences: tuple[str, ...]
    more: int
    """Boxes that are not drawn."""


_Edge = tuple[str, str, str]
"""Operation, group, and the folded ranks that are waited for."""


@costs_itself(lambda finding: None, part="the drawing of waits")
def draw_waits(finding: Finding) -> WaitDrawing | None:
    """Return who waits for whom; None where nobody is known to wait."""
    waits = tuple(finding.cycle) or tuple(waits_of(finding))
    if not waits:
        return None
    edges: dict[int, list[_Edge]] = defaultdict(list)
    for wait in waits:
        edges[wait.rank].append(_edge(wait))
    circle = tuple(wait.rank for wait in finding.cycle)
    columns = _columns(edges, circle)
    boxes, targets, more = _boxes(columns, edges, frozenset(finding.culprit_ranks), frozenset(circle))
    placed, width, height = _placed(boxes, bool(circle))
    return WaitDrawing(
        width=width,
        height=height,
        boxes=tuple(placed.values()),
        arrows=_arrows(placed, targets, circle=bool(circle)),
        sentences=_sentences(edges),
        more=more,
    )


def _edge(wait: Wait) -> _Edge:
    operation = printable(wait.op or "", most=_MOST_TEXT) + (f" #{wait.sequence}" if wait.sequence is not None else "")
    return operation.strip(), "" if wait.group is None else group_text(wait.group), wait.waits_for


def _columns(edges: Mapping[int, Sequence[_Edge]], circle: Sequence[int]) -> dict[int, int]:
    """Return how far each rank is from the end of the waiting: 0 where it waits for nobody."""
    if circle:
        return {rank: len(circle) - 1 - at for at, rank in enumerate(circle)}
    unfolded = {targets: unfold(targets) for each in edges.values() for _, _, targets in each}
    away = {rank: 0 for ranks in unfolded.values() for rank in ranks if rank not in edges}
    if not away:  # a circle that the verdict does not name as one
        away = {min(edges): 0}
    left = {rank: each for rank, each in edges.items() if rank not in away}
    for column in range(1, _MOST_COLUMNS):
        reached_sets = {targets for targets, ranks in unfolded.items() if any(rank in away for rank in ranks)}
        reached = [rank for rank, each in left.items() if any(targets in reached_sets for _, _, targets in each)]
        if not reached:
            break
        away |= dict.fromkeys(reached, column)
        left = {rank: each for rank, each in left.items() if rank not in away}
    return _furthest(away | dict.fromkeys(left, _MOST_COLUMNS - 1), edges, unfolded)


def _furthest(
    columns: dict[int, int], edges: Mapping[int, Sequence[_Edge]], unfolded: Mapping[str, Sequence[int]]
) -> dict[int, int]:
    """Move ranks left until all for whom they wait stand right of them; where waits go in circles, leave them."""
    moved = dict(columns)
    for _ in range(_MOST_COLUMNS):
        ends = {
            whom: max((moved[rank] for rank in ranks if rank in moved), default=-1) for whom, ranks in unfolded.items()
        }
        further = {
            rank: 1 + max(ends[whom] for _, _, whom in each) for rank, each in edges.items() if columns[rank] > 0
        }
        if further.items() <= moved.items():
            return moved
        moved |= further
    return columns


def _boxes(
    columns: Mapping[int, int],
    edges: Mapping[int, Sequence[_Edge]],
    culprits: frozenset[int],
    circle: frozenset[int],
) -> tuple[dict[int, list[Box]], dict[int, set[int]], int]:
    """Fold each column, from the end of the waiting on.

    Return the boxes by column, whom each waits for, and how many are not drawn.
    """
    box_of: dict[int, int] = {}
    boxes: dict[int, list[Box]] = defaultdict(list)
    folded = 0
    for column in sorted(set(columns.values())):
        ranks_here = sorted(rank for rank, at in columns.items() if at == column)
        for ranks in _alike(ranks_here, edges, box_of, culprits, circle):
            box_of |= dict.fromkeys(ranks, folded)
            if len(boxes[column]) < _MOST_IN_COLUMN:
                lines = _lines(ranks, edges.get(ranks[0], ()))
                guilty, round_about = not culprits.isdisjoint(ranks), not circle.isdisjoint(ranks)
                boxes[column].append(Box(folded, fold(ranks), lines, guilty, round_about))
            folded += 1
    targets: dict[int, set[int]] = {box.key: set() for each in boxes.values() for box in each}
    for rank, key in box_of.items():
        for _, _, whom in edges.get(rank, ()) if key in targets else ():
            targets[key] |= {box_of[one] for one in unfold(whom)[:_MOST_UNFOLDED] if one in box_of} - {key}
    return boxes, targets, folded - len(targets)


def _alike(
    ranks: Sequence[int],
    edges: Mapping[int, Sequence[_Edge]],
    box_of: Mapping[int, int],
    culprits: frozenset[int],
    circle: frozenset[int],
) -> list[list[int]]:
    """Return the ranks that wait in the same operation for the same boxes together, culprits and large sets first."""
    reached: dict[str, frozenset[int]] = {}
    together: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank in ranks:
        for _, _, whom in edges.get(rank, ()):
            if whom not in reached:
                reached[whom] = frozenset(box_of[one] for one in unfold(whom) if one in box_of)
        waiting = tuple((what, _family(group), reached[whom]) for what, group, whom in edges.get(rank, ()))
        together[waiting, rank in culprits, rank if rank in circle else None].append(rank)
    return sorted(together.values(), key=lambda same: (culprits.isdisjoint(same), -len(same), same))


_MOST_UNFOLDED = 256
"""Ranks of one set that arrows are looked for: further ones are in the same boxes, or nearly so."""


def _family(group: str) -> str:
    """Return the name that groups of one kind share: `tp` of `tp1 [2-3]`, but `group 7` of `group 7 [0-3]`."""
    name = group.partition(" [")[0]
    family = name.rstrip("0123456789")
    return name if not family or family.endswith(" ") else family


def _lines(ranks: Sequence[int], edges: Sequence[_Edge]) -> tuple[str, ...]:
    number = f" ({len(ranks)})" if len(ranks) > 1 else ""
    head = _cut(f"{ranks_text(fold(ranks))}{number}")
    if not edges:
        return (head, "waits for no rank" if len(ranks) == 1 else "wait for no rank")
    operation, group, _ = edges[0]
    further = f" and {counted(len(edges) - 1, 'more wait')}" if len(edges) > 1 else ""
    inside = _cut(f"in {group if len(ranks) == 1 else _family(group)}") if group else ""
    return tuple(line for line in (head, _cut(f"in {operation}{further}") if operation else "", inside) if line)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def _placed(boxes: Mapping[int, Sequence[Box]], circle: bool) -> tuple[dict[int, Box], float, float]:
    """Put the columns side by side, the furthest from the end first, each in the middle."""
    heights = {column: sum(_height(box) for box in each) + _GAP_Y * (len(each) - 1) for column, each in boxes.items()}
    top = 46.0 if circle else 6.0
    tallest = max(heights.values())
    placed: dict[int, Box] = {}
    x = 6.0
    for column in sorted(boxes, reverse=True):
        width = max(_CHARACTER * len(line) for box in boxes[column] for line in box.lines) + 26
        y = top + (tallest - heights[column]) / 2
        for box in boxes[column]:
            placed[box.key] = replace(box, x=x, y=round(y, 1), width=round(width, 1), height=_height(box))
            y += _height(box) + _GAP_Y
        x += round(width, 1) + _GAP_X
    return placed, round(x - _GAP_X + 6, 1), round(top + tallest + 6, 1)


def _height(box: Box) -> float:
    return _LINE * len(box.lines) + 14


def _arrows(placed: Mapping[int, Box], targets: Mapping[int, set[int]], *, circle: bool) -> tuple[Arrow, ...]:
    arrows = []
    for key, box in placed.items():
        for other in sorted(targets.get(key, ())):
            if other in placed:
                closes = circle and box.in_circle and placed[other].in_circle
                arrows.append(Arrow(_path(box, placed[other]), closes))
    return tuple(arrows)


def _path(box: Box, other: Box) -> str:
    """A curve to the right; back to the left it goes over the top."""
    if other.x > box.x:
        x, y, to_x, to_y = box.x + box.width, box.y + box.height / 2, other.x - 3, other.y + other.height / 2
        middle = (x + to_x) / 2
        return f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
    x, to_x, to_y = box.x + box.width / 2, other.x + other.width / 2, other.y - 3
    over = min(box.y, other.y) - 34
    return f"M{x:g} {box.y:g}C{x:g} {over:g} {to_x:g} {over:g} {to_x:g} {to_y:g}"


_MOST_SENTENCES = 40


def _sentences(edges: Mapping[int, Sequence[_Edge]]) -> tuple[str, ...]:
    alike: dict[_Edge, list[int]] = defaultdict(list)
    for rank, each in edges.items():
        for edge in each:
            alike[edge].append(rank)
    said = []
    for (operation, group, whom), ranks in list(alike.items())[:_MOST_SENTENCES]:
        verb = "waits" if len(ranks) == 1 else "wait"
        inside = f" in {operation or 'an operation'}" + (f" of {group}" if group else "")
        said.append(f"{ranks_text(fold(ranks))} {verb}{inside} for {ranks_text(whom)}")
    rest = len(alike) - _MOST_SENTENCES
    return (*said, f"… {rest} more in the JSON output") if rest > 0 else tuple(said)
