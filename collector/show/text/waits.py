"""Who waits for whom: the edges of the wait-for graph as a table, a cycle as a ring."""

from collections.abc import Iterable, Sequence

from collector.show.text.frames import place_text
from collector.show.text.layout import Line, Span, Style, columns_of, line, pad
from collector.show.text.printable import display_width, printable
from shared.answer.diagnosis import Finding, GroupRef, Wait, WaitEvidence
from shared.rank_sets import fold, unfold

MOST_WAITS = 12
"""Lines of one table. More are counted, not shown."""


def operation_text(op: str | None, sequence: int | None, group: GroupRef | None) -> str:
    """Return `all_reduce #4 in default_pg [0-3]`, as far as it is known."""
    parts = [] if op is None else [printable(op, most=60)]
    if sequence is not None:
        parts.append(f"#{sequence}")
    if group is not None:
        parts.append(("in " if parts else "") + group_text(group))
    return " ".join(parts)


def group_text(group: GroupRef) -> str:
    """Return the name that a person knows a group by, and its members: `tp1 [2-3]`."""
    described = group.description not in ("", "undefined")  # PyTorch's word for no description
    name = printable(group.description if described else group.name, most=60) or "an unnamed group"
    if name.isdecimal():
        name = f"group {name}"
    return f"{name} [{folded(group.ranks)}]" if group.ranks else name


def folded(ranks: str, *, most: int = 48) -> str:
    """Return a folded rank set, cut after whole spans where it is long."""
    if len(ranks) <= most:
        return ranks
    cut = ranks[:most].rpartition(",")[0]
    return f"{cut},… ({len(unfold(ranks))} ranks)"


def ranks_text(ranks: str) -> str:
    """Return `rank 2` or `ranks 0-1,3`."""
    return f"rank {ranks}" if ranks.isdigit() else f"ranks {folded(ranks)}"


def waits_of(finding: Finding) -> list[Wait]:
    """Return the finding's wait-for edges, the furthest victims first; made up from the finding where none is given."""
    waits = [wait for evidence in finding.evidence if isinstance(evidence, WaitEvidence) for wait in evidence.waits]
    if waits:
        return sorted(dict.fromkeys(waits), key=_Distance(finding, waits))
    culprits = fold(finding.culprit_ranks)
    if not (finding.victims and culprits):
        return []
    at = (finding.group, finding.op, finding.sequence)
    return [_wait(rank, culprits, *at) for rank in unfold(finding.victims)]


def _wait(rank: int, waits_for: str, group: GroupRef | None, op: str | None, sequence: int | None) -> Wait:
    return Wait(rank=rank, waits_for=waits_for, group=group, op=op, sequence=sequence)


class _Distance:
    """Sorts edges: those that lead straight to a culprit last."""

    def __init__(self, finding: Finding, waits: Iterable[Wait]) -> None:
        self._culprits = set(finding.culprit_ranks)
        self._direct = {w.rank for w in waits if self._culprits & set(unfold(w.waits_for))}

    def __call__(self, wait: Wait) -> tuple[int, str, int, int]:
        targets = set(unfold(wait.waits_for))
        nearness = 2 if targets <= self._culprits else 1 if targets & self._culprits else 0
        return nearness, wait.group.name if wait.group else "", wait.sequence or 0, wait.rank


def wait_lines(finding: Finding, width: int) -> list[Line]:
    """Return a table `who -> in what -> for whom`, equal edges folded into one line."""
    edges = _folded_edges(waits_of(finding))
    rows = [(f"{ranks_text(fold(ranks))}", what, for_whom) for (what, for_whom), ranks in edges.items()]
    shown, more = rows[:MOST_WAITS], rows[MOST_WAITS:]
    if not shown:
        return []
    culprits = set(finding.culprit_ranks)
    lines = [each for row in shown for each in _edge(row, columns_of(shown), width, culprits)]
    return [*lines, line(f"… {len(more)} more", Style.DIM)] if more else lines


def _folded_edges(waits: Sequence[Wait]) -> dict[tuple[str, str], list[int]]:
    edges: dict[tuple[str, str], list[int]] = {}
    for wait in waits:
        what = operation_text(wait.op, wait.sequence, wait.group)
        edges.setdefault((what, wait.waits_for), []).append(wait.rank)
    return edges


def _edge(row: tuple[str, str, str], widths: Sequence[int], width: int, culprits: set[int]) -> list[Line]:
    """One line where it fits, else one for each end and the operation."""
    who, what, waits_for = row
    for_whom = _target(waits_for, culprits)
    arrow = Span(" → ", Style.DIM)
    if not what:
        return [(Span(who), arrow, for_whom)]
    if sum(widths[:2]) + 2 * len(arrow.text) + display_width(for_whom.text) <= width:
        return [(Span(pad(who, widths[0])), arrow, Span(pad(what, widths[1])), arrow, for_whom)]
    return [(Span(who),), (arrow, Span(what)), (arrow, for_whom)]


def _target(waits_for: str, culprits: set[int]) -> Span:
    guilty = set(unfold(waits_for)) <= culprits
    return Span(ranks_text(waits_for), Style.BAD if guilty else Style.PLAIN)


def ring_lines(cycle: Sequence[Wait], width: int) -> list[Line]:
    """Return a cycle as a ring: each rank, what it waits in, for whom, and where it was called."""
    if not cycle:
        return []
    rows = [(ranks_text(str(w.rank)), operation_text(w.op, w.sequence, w.group)) for w in cycle]
    widths = columns_of(rows)
    lines: list[Line] = []
    for at, (wait, row) in enumerate(zip(cycle, rows, strict=True)):
        rail = "┌→ " if at == 0 else "│  " if at < len(rows) - 1 else "└─ "
        under = "│    " if at < len(rows) - 1 else "     "
        step = "  ".join(pad(cell, column) for cell, column in zip(row, widths, strict=True))
        lines.extend(_ring_step(wait, step, rail, under, width))
    return lines


def _ring_step(wait: Wait, step: str, rail: str, under: str, width: int) -> list[Line]:
    """The target follows on the same line if it fits; the call site is below."""
    for_whom = f"waits for {ranks_text(wait.waits_for)}"
    whole = f"{step}  {for_whom}"
    lines: list[Line] = [(Span(rail, Style.BAD), Span(whole))]
    if len(rail) + display_width(whole) > width:
        lines = [(Span(rail, Style.BAD), Span(step.rstrip())), (Span(under, Style.BAD), Span(for_whom))]
    if wait.call_site is not None:
        lines.append((Span(under, Style.BAD), Span(f"at {place_text(wait.call_site)}", Style.DIM)))
    return lines
