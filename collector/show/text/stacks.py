"""Merged stacks of many ranks: a prefix tree as STAT draws it, folded lines, speedscope, classes.

A rank ends where its innermost frame is. All walks use a list of their own instead of recursion: a job's stacks may
be as deep as they like.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from collector.align.stacks.other_stacks import OtherStacks
from collector.align.stacks.stack_classes import StackNode
from collector.show.text.classes import class_lines
from collector.show.text.frames import place_text
from collector.show.text.layout import NARROWEST, Line, Span, Style, fitted, paint
from collector.show.text.printable import printable, shortened
from collector.show.text.waits import folded
from shared.answer.diagnosis import Place, StackClass
from shared.plural import counted
from shared.rank_sets import fold, unfold

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
"""The format's name for itself; a viewer at hand reads the file, nothing is fetched."""


_MOST_PIDS = 8


def render_tree(tree: Sequence[StackNode], *, colour: bool = False, width: int = 120) -> str:
    """Draw the tree: each frame with the ranks that passed it, indented only where they part."""
    return paint(fitted(list(_tree(tree)), max(width, NARROWEST)), colour=colour)


def render_others(others: Sequence[OtherStacks], *, colour: bool = False, width: int = 120) -> str:
    """Draw the trees of other threads and of child processes, each under its name."""
    lines: list[Line] = []
    for kind in others:
        pids = ", ".join(f"{each.pid}" for each in kind.processes[:_MOST_PIDS])
        more = ", …" if len(kind.processes) > _MOST_PIDS else ""
        which = f" (pid {pids}{more})" if pids else ""
        lines += [(), (Span(f"{kind.what} {printable(kind.name, most=80)}", Style.BOLD), Span(which, Style.DIM))]
        lines += _tree(kind.tree)
        lines += [(Span(f"… {counted(kind.left_out, 'more stack')}", Style.DIM),)] if kind.left_out else []
    return paint(fitted(lines, max(width, NARROWEST)), colour=colour)


def _tree(tree: Sequence[StackNode]) -> Iterator[Line]:
    every = fold(rank for node in tree for rank in unfold(node.ranks))
    if tree:
        yield (Span(f"[{folded(every)}]", Style.BOLD), Span(f" {counted(len(unfold(every)), 'rank')}", Style.DIM))
    waiting = list(_below(tree, every, ""))[::-1]
    while waiting:
        node, head, margin, told = waiting.pop()
        yield _node_line(node, head, told)
        ended = _staying(node)
        if ended and node.children:
            yield (Span(margin, Style.DIM), Span(f"[{folded(fold(ended))}] ends here", Style.WARNING))
        waiting.extend(list(_below(node.children, node.ranks, margin))[::-1])


def _below(nodes: Sequence[StackNode], told: str, margin: str) -> Iterator[tuple[StackNode, str, str, str]]:
    """Yield each node with its prefix, that of its children, and the ranks shown above it."""
    if len(nodes) == 1:
        yield nodes[0], margin, margin, told
        return
    for at, node in enumerate(nodes):
        branch, under = ("└─ ", "   ") if at == len(nodes) - 1 else ("├─ ", "│  ")
        yield node, margin + branch, margin + under, told


def _node_line(node: StackNode, head: str, told: str) -> Line:
    """A line shows the ranks only if they differ from those above."""
    ranks = "" if node.ranks == told else f"[{folded(node.ranks)}] "
    frame = Span(place_text(node.place), Style.PLAIN if node.children else Style.WARNING)
    return (Span(head, Style.DIM), Span(ranks, Style.BOLD), frame)


def _staying(node: StackNode) -> tuple[int, ...]:
    """Return the ranks whose innermost frame this is."""
    gone_on = {rank for child in node.children for rank in unfold(child.ranks)}
    return tuple(rank for rank in unfold(node.ranks) if rank not in gone_on)


def render_classes(
    classes: Sequence[StackClass], *, colour: bool = False, width: int = 120, most_frames: int = 40
) -> str:
    """Return all classes with their frames, largest first."""
    width = max(width, NARROWEST)
    lines = class_lines(classes, width, most=len(classes), most_frames=most_frames)
    return paint(fitted(lines, width), colour=colour)


def render_folded(tree: Sequence[StackNode]) -> str:
    """Return one line per distinct stack, `outermost;…;innermost count`, as flame graph tools read it."""
    lines = (f"{';'.join(map(_folded_frame, places))} {len(ranks)}" for places, ranks in _stacks(tree))
    return "".join(f"{each}\n" for each in sorted(lines))


def _folded_frame(place: Place) -> str:
    where = f"{shortened(place.file)}:{place.line}" if place.line else shortened(place.file)
    return f"{printable(place.function)} ({where})".replace(";", ":")


def _stacks(tree: Sequence[StackNode]) -> Iterator[tuple[tuple[Place, ...], tuple[int, ...]]]:
    """Yield each path at whose end some ranks stay, with those ranks."""
    waiting: list[tuple[StackNode, tuple[Place, ...]]] = [(node, ()) for node in reversed(tree)]
    while waiting:
        node, above = waiting.pop()
        path = (*above, node.place)
        if stay := _staying(node):
            yield path, stay
        waiting.extend((child, path) for child in reversed(node.children))


def speedscope(tree: Sequence[StackNode], *, name: str) -> dict[str, Any]:
    """Return a file for speedscope as JSON values: one sample per distinct stack, weighted with its ranks."""
    name = printable(name) or "unhang"
    index: dict[Place, int] = {}
    samples, weights = [], []
    for places, ranks in _stacks(tree):
        label = Place(function=f"[ranks {fold(ranks)}]", file="")
        samples.append([index.setdefault(place, len(index)) for place in (*places, label)])
        weights.append(len(ranks))
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": name,
        "exporter": "unhang",
        "shared": {"frames": [_speedscope_frame(place) for place in index]},
        "profiles": [profile],
    }


def _speedscope_frame(place: Place) -> dict[str, Any]:
    frame: dict[str, Any] = {"name": printable(place.function)}
    if place.file:
        frame["file"] = printable(place.file)
    if place.line:
        frame["line"] = place.line
    return frame
