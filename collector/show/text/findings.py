"""One finding as labelled blocks: who waits, who is at fault and where that rank is, the evidence, what to do."""

from collections.abc import Collection, Sequence

from collector.show.text.evidence import Stack, evidence_lines, side_lines
from collector.show.text.frames import place_text
from collector.show.text.layout import Line, Span, Style, labelled, line, paragraph
from collector.show.text.printable import display_width, printable, shortened
from collector.show.text.waits import (
    operation_text,
    ranks_text,
    ring_lines,
    wait_lines,
    waits_of,
)
from shared.answer.diagnosis import Culprit, Finding, Link, LinkEnd, NextStep, Place, Where
from shared.answer.words import Certainty, Kind
from shared.plural import either
from shared.rank_sets import fold, unfold
from shared.units import duration_text

_MEANING = {
    Certainty.PROVEN: "flight records or process state show it directly",
    Certainty.SUPPORTED: "two sources agree, or one shows it with a part that is inferred",
    Certainty.SUSPECTED: "one weak source, or a tie",
}
"""What each word of certainty means, for diagnoses that were kept before findings said why."""

_NOBODY = {
    Kind.COLLECTIVE_MISMATCH: "no side has a majority, so none is blamed",
    Kind.STUCK_TOGETHER: "nothing observed sets one rank apart",
    Kind.REQUESTS_UNANSWERED: "no rank is at fault, another process of the server is",
}
_APART = "the ranks part, and nothing observed tells which of them went astray"

_MOST_CULPRITS = 8
_MOST_LINKS = 8

_NOW = 11
"""Columns of the labels in `where`."""


def why_certain(finding: Finding) -> str:
    """Why a finding is as certain as it is: shown wherever the word is used."""
    return finding.certainty_reason or _MEANING[finding.certainty]


def finding_blocks(finding: Finding, width: int, *, shown: Collection[Stack] = ()) -> list[tuple[str, list[Line]]]:
    """Return the blocks of a finding, each under its label, without those that are empty: the culprit first.

    `shown` are stacks that are shown elsewhere, and not repeated.
    """
    waiting = [] if finding.cycle else wait_lines(finding, width)
    rest = "victims" if finding.culprits else "all waiting" if waiting or finding.cycle else "waiting"
    blocks = [
        (_named(finding), culprit_lines(finding, width)),
        ("where", where_lines(finding.where, width)),
        ("links", link_lines(finding.links)),
        ("cycle", ring_lines(finding.cycle, width)),
        ("sides", side_lines(finding, width)),
        ("waiting", waiting),
        ("operation", _operation(finding, width)),
        ("since", _since(finding)),
        (rest, _victims(finding, width)),
        (
            "ended, too" if finding.culprits else "ended",
            paragraph(ranks_text(finding.ended), width) if finding.ended else [],
        ),
        ("evidence", evidence_lines(finding, width, shown=shown)),
        ("caveats", [line for remark in finding.remarks for line in paragraph(remark, width)]),
    ]
    return [(label, lines) for label, lines in blocks if lines]


_WAITED_FOR = "waited for"
_ANSWERS = frozenset({"culprit", "culprits", _WAITED_FOR, "where", "links"})


def _named(finding: Finding) -> str:
    """Whoever works while others wait for it is no culprit."""
    return _WAITED_FOR if finding.kind is Kind.HELD_UP else either(finding.culprits, "culprit", "culprits")


def answers_apart(blocks: Sequence[tuple[str, list[Line]]]) -> tuple[list[tuple[str, list[Line]]], ...]:
    """Return the blocks that say who and where, and those that show why."""
    return [each for each in blocks if each[0] in _ANSWERS], [each for each in blocks if each[0] not in _ANSWERS]


def labelled_blocks(blocks: Sequence[tuple[str, list[Line]]], columns: int) -> list[Line]:
    """Return the blocks one under the other, labels in a margin of `columns`."""
    return [each for label, lines in blocks for each in labelled(label, lines, columns)]


def _operation(finding: Finding, width: int) -> list[Line]:
    """The operation, where the table of waits does not say it already."""
    if finding.cycle or (finding.victims and finding.culprits):
        return []
    return paragraph(operation_text(finding.op, finding.sequence, finding.group), width)


def _since(finding: Finding) -> list[Line]:
    """Since when it stands, and for how long."""
    if finding.since is None:
        return []
    lasted = "" if finding.lasted_seconds is None else f", for {duration_text(finding.lasted_seconds)}"
    told = [line(f"{printable(finding.since, most=40)}{lasted}")]
    if finding.hung_from is not None:
        told.append(line(f"called hung from {printable(finding.hung_from, most=40)} on"))
    return told


def culprit_lines(finding: Finding, width: int) -> list[Line]:
    """Return the culprits, or why none is named; culprits without a known process are grouped by host."""
    if not finding.culprits:
        apart = finding.kind is Kind.STUCK_TOGETHER and sum(each.kind == "stack" for each in finding.evidence) > 1
        why = _APART if apart else _NOBODY.get(finding.kind, "the evidence does not single out a rank")
        return paragraph(f"none named: {why}", width)
    if len(finding.culprits) <= _MOST_CULPRITS and any((c.pid, c.pod) != (None, None) for c in finding.culprits):
        return [culprit_line(culprit) for culprit in finding.culprits]
    by_host: dict[str | None, list[int]] = {}
    for culprit in finding.culprits:
        by_host.setdefault(culprit.host, []).append(culprit.rank)
    if len(by_host) > _MOST_CULPRITS:
        return paragraph(f"{ranks_text(fold(finding.culprit_ranks))} on {len(by_host)} hosts", width, Style.BAD)
    return [_culprits_on(host, ranks) for host, ranks in by_host.items()]


def _culprits_on(host: str | None, ranks: Sequence[int]) -> Line:
    where = "" if host is None else f"  host {printable(host, most=80)}"
    return (Span(ranks_text(fold(ranks)), Style.BAD), Span(where))


def culprit_line(culprit: Culprit) -> Line:
    """Return `rank 2  host node1, pod a/b, container c, pid 4711, local rank 0, GPU 2`, as far as it is known."""
    facts = [
        f"host {printable(culprit.host, most=80)}" if culprit.host is not None else "",
        f"pod {printable(culprit.pod, most=200)}" if culprit.pod is not None else "",
        f"container {printable(culprit.container, most=80)}" if culprit.container is not None else "",
        f"pid {culprit.pid}" if culprit.pid is not None else "",
        f"local rank {culprit.local_rank}" if culprit.local_rank is not None else "",
        f"GPU {printable(culprit.gpu, most=80)}" if culprit.gpu is not None else "",
    ]
    known = ", ".join(fact for fact in facts if fact)
    return (Span(f"rank {culprit.rank}", Style.BAD), Span(f"  {known}" if known else ""))


def _victims(finding: Finding, width: int) -> list[Line]:
    """The victims, where the table of waits or the ring does not show all of them."""
    waiting = {wait.rank for wait in (*waits_of(finding), *finding.cycle)}
    if waiting.issuperset(unfold(finding.victims)):
        return []
    return paragraph(ranks_text(finding.victims), width)


def where_lines(where: Where | None, width: int) -> list[Line]:
    """Return where the culprit is now: the loop's call, the user's innermost frame and that of all, and more."""
    if where is None:
        return []
    innermost = None if where.library == where.user else where.library
    thread = where.thread if where.thread != "MainThread" else ""
    rows = [
        ("called at", _place_lines(None if where.call == where.user else where.call, width - _NOW)),
        ("user code", _place_lines(where.user, width - _NOW)),
        ("innermost", _place_lines(innermost, width - _NOW)),
        ("thread", paragraph(printable(thread, most=80), width - _NOW)),
        ("process", paragraph(printable(where.process), width - _NOW)),
        ("child", paragraph(printable(where.child), width - _NOW)),
    ]
    return [each for label, lines in rows for each in labelled(label, lines, _NOW)]


def _place_lines(place: Place | None, width: int) -> list[Line]:
    """On one line if it fits, else the place below the function."""
    if place is None:
        return []
    whole = place_text(place)
    if display_width(whole) <= width or not place.file:
        return [line(whole, Style.BOLD)]
    number = f":{place.line}" if place.line else ""
    path = shortened(place.file, max(width - len(number), 12))
    return [line(printable(place.function, most=120), Style.BOLD), line(path + number)]


def link_lines(links: Sequence[Link]) -> list[Line]:
    """Return both ends of each link under suspicion."""
    lines: list[Line] = []
    for link in links[:_MOST_LINKS]:
        ends = f"{end_text(link.from_)} ↔ {end_text(link.to)}"
        interface = f"  over {printable(link.interface, most=80)}" if link.interface is not None else ""
        lines.append((Span(ends, Style.WARNING), Span(interface)))
    more = len(links) - _MOST_LINKS
    return [*lines, line(f"… {more} more", Style.DIM)] if more > 0 else lines


def end_text(end: LinkEnd) -> str:
    """Return `rank 3 on node2`, as far as it is known."""
    rank = f"rank {end.rank}" if end.rank is not None else ""
    host = printable(end.host, most=80) if end.host is not None else ""
    return " on ".join(part for part in (rank, host) if part) or "an unknown end"


def step_lines(steps: Sequence[NextStep], width: int) -> list[tuple[list[Line], Line | None]]:
    """Return each step's text, numbered, and its command; a command is never wrapped, so that it can be copied."""
    numbered: list[tuple[list[Line], Line | None]] = []
    for number, step in enumerate(steps, start=1):
        mark = f"{number}. "
        text = labelled(mark, paragraph(printable(step.text), width - len(mark)), len(mark))
        command: Line | None = None
        if step.command is not None:
            command = (Span(f"{' ' * len(mark)}$ ", Style.DIM), Span(printable(step.command), Style.BOLD))
        numbered.append((text, command))
    return numbered


def title_text(finding: Finding) -> str:
    """Return `rank_not_joined, proven; cause user_code` in the words of the API."""
    return f"{finding.kind}, {finding.certainty}; cause {finding.cause}"
