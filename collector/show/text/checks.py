"""What is wrong or risky in how a job was started, as a section of a verdict and as a page of its own."""

from collections.abc import Sequence

from collector.show.text.layout import EMPTY, NARROWEST, Line, Span, Style, labelled, line, paint, paragraph
from collector.show.text.printable import printable
from shared.answer.checks import Check, Severity
from shared.plural import counted

_STYLES = {Severity.WRONG: Style.BAD, Severity.RISKY: Style.WARNING, Severity.NOTE: Style.DIM}
_MARGIN = 9
_MOST_IN_VERDICT = 6


def check_lines(checks: Sequence[Check], width: int) -> list[Line]:
    """Return a block for each check: what was seen, why it matters, what to change."""
    lines: list[Line] = []
    for check in checks:
        lines += [EMPTY] if lines else []
        lines.append(
            (Span(f"{check.severity.value.upper()}  ", _STYLES[check.severity]), Span(_name(check), Style.BOLD))
        )
        for label, said in (("found", check.seen), ("why", check.why), ("fix", check.change)):
            lines += labelled(f"  {label}", paragraph(printable(said), width - _MARGIN - 1), _MARGIN + 1)
    return lines


def _name(check: Check) -> str:
    """Return its id, and of a rule of the site which one."""
    return f"{check.id.value} {check.rule}".rstrip()


def worst_lines(checks: Sequence[Check], width: int) -> list[Line]:
    """Return what belongs under a verdict: the wrong and the risky; notes are counted."""
    grave = [check for check in checks if check.severity is not Severity.NOTE]
    rest = [*grave[_MOST_IN_VERDICT:], *(check for check in checks if check.severity is Severity.NOTE)]
    lines = check_lines(grave[:_MOST_IN_VERDICT], width)
    if grave and rest:
        lines += [
            EMPTY,
            *paragraph(f"and {counted(len(rest), 'note')}; run `unhang check` to see all", width, Style.DIM),
        ]
    return lines


def render_checks(checks: Sequence[Check], *, looked_at: str, colour: bool, width: int) -> str:
    """Return the page of `unhang check`."""
    width = max(width, NARROWEST)
    if not checks:
        text = "no problems found" if looked_at else "nothing could be checked"
        return paint([line(text, Style.GOOD if looked_at else Style.PUZZLING)], colour=colour)
    return paint(check_lines(checks, width), colour=colour)
