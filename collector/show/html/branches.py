"""The merged stack tree for a page: chains of frames as one branch, ranks where they part, the culprits' way lit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from collector.align.stacks.stack_classes import StackNode
from collector.show.text.frames import is_library
from collector.show.text.printable import printable, shortened
from shared.answer.diagnosis import Place
from shared.isolation import costs_itself
from shared.rank_sets import fold, unfold

_MOST_BRANCHES = 160
_MOST_FRAMES = 3000
_DEEPEST = 24
"""Branchings below one another that are drawn."""
_LONGEST_FUNCTION = 160
_LONGEST_FILE = 240
_MOST_OUTER = 6
"""Frames of one branch; of more, the outer ones are folded away."""


@dataclass(frozen=True)
class FrameLine:
    """One frame. `own`: the job's own code, and no library."""

    function: str
    where: str
    own: bool


@dataclass(frozen=True)
class Branch:
    """Frames that ranks share until they part. `staying`: those whose innermost frame is the last one."""

    ranks: str
    count: int
    outer: tuple[FrameLine, ...]
    frames: tuple[FrameLine, ...]
    staying: str
    guilty: bool
    children: tuple["Branch", ...]
    left_out: str = ""
    """Ranks of branches below that are not drawn."""


@dataclass
class _Budget:
    branches: int = field(default=_MOST_BRANCHES)
    frames: int = field(default=_MOST_FRAMES)

    @property
    def is_spent(self) -> bool:
        """Must the rest be left out?"""
        return self.branches <= 0 or self.frames <= 0


@costs_itself(lambda *_: (), part="the tree of stacks")
def grow(tree: Sequence[StackNode], culprits: frozenset[int]) -> tuple[Branch, ...]:
    """Return the tree's branches, those of culprits first; what is beyond the bound is counted."""
    budget = _Budget()
    grown: list[Branch] = []
    for node in _ordered(tree, culprits):
        if not budget.is_spent:
            grown.append(_branch(node, culprits, budget, depth=0))
    return tuple(grown)


def _ordered(nodes: Sequence[StackNode], culprits: frozenset[int]) -> list[StackNode]:
    return sorted(nodes, key=lambda node: culprits.isdisjoint(unfold(node.ranks)))


def _branch(node: StackNode, culprits: frozenset[int], budget: _Budget, *, depth: int) -> Branch:
    budget.branches -= 1
    places = [node.place]
    while len(node.children) == 1 and node.children[0].ranks == node.ranks:
        node = node.children[0]
        places.append(node.place)
    budget.frames -= len(places)
    ranks = unfold(node.ranks)
    gone_on = {rank for child in node.children for rank in unfold(child.ranks)}
    staying = [rank for rank in ranks if rank not in gone_on]
    children: list[Branch] = []
    left: list[int] = []
    for child in _ordered(node.children, culprits):
        if depth < _DEEPEST and not budget.is_spent:
            children.append(_branch(child, culprits, budget, depth=depth + 1))
        else:
            left.extend(unfold(child.ranks))
    lines = tuple(map(_frame, places))
    cut = len(lines) - _MOST_OUTER if len(lines) > _MOST_OUTER + 1 else 0
    return Branch(
        ranks=node.ranks,
        count=len(ranks),
        outer=lines[:cut],
        frames=lines[cut:],
        staying=fold(staying),
        guilty=not culprits.isdisjoint(ranks),
        children=tuple(children),
        left_out=fold(left),
    )


def _frame(place: Place) -> FrameLine:
    file = shortened(place.file, _LONGEST_FILE)
    where = f"{file}:{place.line}" if place.line else file
    return FrameLine(printable(place.function, most=_LONGEST_FUNCTION), where, not is_library(place))
