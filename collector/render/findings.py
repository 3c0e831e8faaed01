"""One finding as labelled blocks: who waits, who is to blame and where that one is, on what ground, what to do."""

from collections.abc import Sequence

from collector.render.evidence import evidence_lines, side_lines
from collector.render.frames import place_text
from collector.render.layout import Line, Span, Style, labelled, line, paragraph
from collector.render.printable import counted, display_width, printable
from collector.render.waits import (
    folded,
    operation_text,
    ranks_text,
    ring_lines,
    wait_lines,
)
from shared.diagnosis import Certainty, Culprit, Finding, Kind, Link, LinkEnd, NextStep, Where
from shared.ranks import fold

MEANING = {
    Certainty.PROVEN: "sequence marks or process state show it directly",
    Certainty.SUPPORTED: "two independent weaker sources agree",
    Certainty.SUSPECTED: "one weaker source, or a tie",
}
"""What each word of certainty stands for, told wherever one is used."""

_MOST_CULPRITS = 8
_MOST_LINKS = 8


def finding_blocks(finding: Finding, width: int) -> list[tuple[str, list[Line]]]:
    """Return the blocks of a finding, each under its label, without those that are empty."""
    blocks = [
        ("cycle", ring_lines(finding.cycle, width)),
        ("sides", side_lines(finding, width)),
        ("who waits", [] if finding.cycle else wait_lines(finding, width)),
        ("in", _operation(finding, width)),
        ("culprit" if len(finding.culprits) == 1 else "culprits", culprit_lines(finding, width)),
        ("links", link_lines(finding.links)),
        ("where", where_lines(finding.where, width)),
        ("victims", _victims(finding, width)),
        ("ground", evidence_lines(finding, width)),
    ]
    return [(label, lines) for label, lines in blocks if lines]


def labelled_blocks(blocks: Sequence[tuple[str, list[Line]]], columns: int) -> list[Line]:
    """Return the blocks one under the other, labels in a margin of `columns`."""
    return [each for label, lines in blocks for each in labelled(label, lines, columns)]


def _operation(finding: Finding, width: int) -> list[Line]:
    """The operation, where the table of waits does not say it already."""
    if finding.cycle or (finding.victims and finding.culprits):
        return []
    return paragraph(operation_text(finding.op, finding.sequence, finding.group), width)


def culprit_lines(finding: Finding, width: int) -> list[Line]:
    """Return who is to blame, or that nobody is."""
    if not finding.culprits:
        nobody = "none named: what is known points at a link or at all alike"
        split = "none named: there is no majority, so no side is convicted"
        return paragraph(split if finding.kind is Kind.COLLECTIVE_MISMATCH else nobody, width)
    if len(finding.culprits) <= _MOST_CULPRITS:
        return [culprit_line(culprit) for culprit in finding.culprits]
    hosts = sorted({printable(culprit.host, most=80) for culprit in finding.culprits if culprit.host is not None})
    shown = ", ".join(hosts[:_MOST_CULPRITS]) + (", …" if len(hosts) > _MOST_CULPRITS else "")
    on_hosts = f" on {counted(len(hosts), 'host')}: {shown}" if hosts else ""
    return paragraph(f"{len(finding.culprits)} ranks {folded(fold(finding.culprit_ranks))}{on_hosts}", width)


def culprit_line(culprit: Culprit) -> Line:
    """Return `rank 2  host node1, pid 4711, local rank 0, GPU 2`, as far as it is known."""
    facts = [
        f"host {printable(culprit.host, most=80)}" if culprit.host is not None else "",
        f"pid {culprit.pid}" if culprit.pid is not None else "",
        f"local rank {culprit.local_rank}" if culprit.local_rank is not None else "",
        f"GPU {printable(culprit.gpu, most=80)}" if culprit.gpu is not None else "",
    ]
    known = ", ".join(fact for fact in facts if fact)
    return (Span(f"rank {culprit.rank}", Style.BAD), Span(f"  {known}" if known else ""))


def _victims(finding: Finding, width: int) -> list[Line]:
    if not finding.victims:
        return []
    return paragraph(f"{ranks_text(finding.victims)}: they only wait; leave them alone", width, Style.DIM)


def where_lines(where: Where | None, width: int) -> list[Line]:
    """Return where the culprit is now: the user's frame, the innermost one, the process, the child."""
    if where is None:
        return []
    frames = [(where.user, "own code"), (where.library, "innermost")]
    if where.user == where.library:
        frames = [(where.user, "own code, innermost")]
    lines = [_frame_line(place_text(place), what, width) for place, what in frames if place is not None]
    thread = f"thread {printable(where.thread, most=80)}: " if where.thread not in ("", "MainThread") else ""
    process = f"{thread}{printable(where.process)}"
    child = f"child: {printable(where.child)}" if where.child else ""
    told = [each for text in (process, child) if text for each in paragraph(text, width)]
    return [*(each for frame in lines for each in frame), *told]


def _frame_line(place: str, what: str, width: int) -> list[Line]:
    note = Span(f"   {what}", Style.DIM)
    if display_width(place + note.text) <= width:
        one: Line = (Span(place, Style.BOLD), note)
        return [one]
    return [*paragraph(place, width, Style.BOLD), (note,)]


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
