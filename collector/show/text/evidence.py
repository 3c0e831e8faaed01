"""What a finding rests on: one sentence per piece of evidence, and the numbers or lines under it."""

from collections.abc import Collection

from collector.show.text.frames import frame_lines, place_text
from collector.show.text.layout import Line, Span, Style, columns_of, indented, line, pad, paragraph
from collector.show.text.printable import printable
from collector.show.text.waits import ranks_text
from shared.answer.diagnosis import (
    Evidence,
    FdEvidence,
    Finding,
    KernelEvidence,
    LogEvidence,
    Place,
    SequenceEvidence,
    Side,
    SignatureEvidence,
    StackEvidence,
    WaitEvidence,
)
from shared.rank_sets import unfold

MOST_EVIDENCE = 12
"""Pieces shown of one finding."""

_MOST_SIDES = 8
_STACK_FRAMES = 4


Stack = tuple[Place, ...]


def evidence_lines(finding: Finding, width: int, *, shown: Collection[Stack] = ()) -> list[Line]:
    """Return the evidence of a finding, each piece headed by its kind.

    Waits are left out: they are in the table of who waits for whom. So are stacks that are `shown` elsewhere.
    """
    items = [evidence for evidence in finding.evidence if not isinstance(evidence, WaitEvidence)]
    kinds = [[evidence.kind] for evidence in items]
    column = max(columns_of(kinds), default=0) + 2
    lines: list[Line] = []
    for evidence in items[:MOST_EVIDENCE]:
        said = paragraph(printable(evidence.text, most=1000) or ranks_text(evidence.ranks), width - column)
        body = [*said, *indented(_details(evidence, width - column - 2, shown), 2)]
        head = Span(pad(evidence.kind, column), Style.DIM)
        lines.extend((head if at == 0 else Span(" " * column), *each) for at, each in enumerate(body))
    if len(items) > MOST_EVIDENCE:
        lines.append(line(f"… {len(items) - MOST_EVIDENCE} more in the JSON output", Style.DIM))
    return lines


def _details(evidence: Evidence, width: int, shown: Collection[Stack]) -> list[Line]:
    """Return the lines below the sentence: the job's own, and details that do not fit into the sentence."""
    match evidence:
        case SequenceEvidence() if evidence.waited_seconds is not None:
            return [line(f"waited for {evidence.waited_seconds:.0f} s", Style.DIM)]
        case StackEvidence() if evidence.frames not in shown:
            return frame_lines(evidence.frames, width, most=_STACK_FRAMES)
        case LogEvidence():
            path = [line(printable(evidence.path), Style.DIM)] if evidence.path else []
            return [*path, *paragraph(printable(evidence.line, most=500), width)]
        case KernelEvidence():
            return paragraph(printable(evidence.line, most=500), width)
        case FdEvidence() if evidence.target is not None and evidence.target not in evidence.text:
            return [line(f"fd {evidence.fd}: {printable(evidence.target)}", Style.DIM)]
        case _:
            return []


def sides_of(finding: Finding) -> tuple[Side, ...]:
    """Return the opposing sides, of the first evidence that has them."""
    found = (evidence.sides for evidence in finding.evidence if isinstance(evidence, SignatureEvidence))
    return next(found, ())


def side_lines(finding: Finding, width: int) -> list[Line]:
    """Return one line per side: who calls what, with which sizes, and where."""
    sides = sides_of(finding)
    culprits = set(finding.culprit_ranks)
    rows = [_side(side) for side in sides[:_MOST_SIDES]]
    widths = columns_of(rows) if rows else []
    lines: list[Line] = []
    for side, row in zip(sides, rows, strict=False):
        guilty = not culprits.isdisjoint(unfold(side.ranks))
        cells = "  ".join(pad(cell, column) for cell, column in zip(row[1:], widths[1:], strict=True))
        lines.append((Span(pad(row[0], widths[0]), Style.BAD if guilty else Style.PLAIN), Span("  " + cells.rstrip())))
        if side.call_site is not None:
            lines.append(line(f"  at {place_text(side.call_site)}", Style.DIM))
    return [*lines, line(f"… {len(sides) - len(rows)} more", Style.DIM)] if len(sides) > len(rows) else lines


def _side(side: Side) -> tuple[str, str, str, str]:
    who = ranks_text(side.ranks) if side.ranks else "?"
    return who, printable(side.op, most=60), printable(side.sizes, most=80), printable(side.dtypes, most=60)
