"""The verdict for a terminal: the headline first, then each finding with its evidence, then what was not seen."""

from collector.show.text.action import action_lines, besides
from collector.show.text.classes import shown_stacks
from collector.show.text.findings import (
    answers_apart,
    finding_blocks,
    labelled_blocks,
    step_lines,
    title_text,
    why_certain,
)
from collector.show.text.layout import (
    EMPTY,
    NARROWEST,
    Line,
    Span,
    Style,
    fitted,
    hanging,
    indented,
    line,
    paint,
    paragraph,
)
from collector.show.text.printable import printable
from collector.show.text.sections import Section, not_shown, sections
from shared.answer.diagnosis import Diagnosis, Finding, NextStep
from shared.answer.words import Verdict
from shared.isolation import costs_itself, failures_told

WORDS = {
    Verdict.HUNG: ("HUNG", Style.BAD),
    Verdict.DIED: ("DIED", Style.BAD),
    Verdict.SLOW: ("SLOW", Style.WARNING),
    Verdict.NOT_HUNG: ("NOT HUNG", Style.GOOD),
    Verdict.CANNOT_TELL: ("CANNOT TELL", Style.PUZZLING),
}

_MARGIN = 12
"""Columns of the labels on the left."""

_MOST_FINDINGS = 6


def render_text(diagnosis: Diagnosis, *, colour: bool, width: int) -> str:
    """Return the verdict as text of at most `width` columns; only commands, which are to be copied, may be longer."""
    width = max(width, NARROWEST)
    with failures_told() as failures:
        lines = [*_head(diagnosis, width), *_findings(diagnosis, width)]
        for section in sections(diagnosis, width - 2):
            lines += _section(section, width)
    return paint([*lines, *(_section(not_shown(failures), width) if failures else [])], colour=colour)


def _head(diagnosis: Diagnosis, width: int) -> list[Line]:
    headline = paragraph(printable(headline_text(diagnosis)), width, WORDS[diagnosis.verdict][1])
    act = [] if diagnosis.action is None else action_lines(diagnosis.action, _MARGIN, width)
    return [*headline, *paragraph(about_text(diagnosis), width, Style.DIM), *act]


def headline_text(diagnosis: Diagnosis) -> str:
    """Return the headline, which says the verdict first; not printable yet."""
    word = WORDS[diagnosis.verdict][0]
    said = diagnosis.headline.lower().startswith((word.lower(), "held up"))
    return diagnosis.headline if said else f"{word}: {diagnosis.headline}".removesuffix(": ")


def about_text(diagnosis: Diagnosis) -> str:
    """Return `hung, job slurm-4242, 2026-01-02T03:04:05Z, took 3.4 s` as far as it is known."""
    parts = [
        diagnosis.verdict.value + (f" ({diagnosis.state})" if diagnosis.state is not None else ""),
        f"job {printable(diagnosis.job, most=80)}{_owner(diagnosis)}" if diagnosis.job is not None else "",
        printable(diagnosis.made_at, most=40),
        f"took {diagnosis.took_seconds:.1f} s" if diagnosis.took_seconds else "",
    ]
    return ", ".join(part for part in parts if part)


def _owner(diagnosis: Diagnosis) -> str:
    return "" if diagnosis.owner is None else f" of {printable(diagnosis.owner, most=64)}"


def _findings(diagnosis: Diagnosis, width: int) -> list[Line]:
    lines: list[Line] = []
    for number, finding in enumerate(diagnosis.findings[:_MOST_FINDINGS], start=1):
        lines += [EMPTY, *_finding(finding, number, width, diagnosis)]
    more = len(diagnosis.findings) - _MOST_FINDINGS
    return [*lines, EMPTY, line(f"… {more} more findings in the JSON output", Style.DIM)] if more > 0 else lines


@costs_itself(lambda finding, *_: [line(printable(finding.summary), Style.BOLD)], part="a finding in text")
def _finding(finding: Finding, number: int, width: int, diagnosis: Diagnosis) -> list[Line]:
    title = (Span(f"{number}. {title_text(finding)}", Style.BOLD),)
    meaning = (Span(f"   {finding.certainty}: {printable(why_certain(finding))}", Style.DIM),)
    summary = [] if finding.summary in diagnosis.headline else paragraph(printable(finding.summary), width - 3)
    blocks = finding_blocks(finding, width - _MARGIN - 3, shown=shown_stacks(diagnosis))
    answers, reasons = (fitted(labelled_blocks(part, _MARGIN), width - 3) for part in answers_apart(blocks))
    steps = _labelled_steps(besides(finding.next_steps, diagnosis.action), width)
    return [*fitted([title, meaning], width), *indented([*summary, *answers], 3), *steps, *indented(reasons, 3)]


def _labelled_steps(steps: tuple[NextStep, ...], width: int) -> list[Line]:
    lines = _steps(steps, width - _MARGIN - 1)
    head, margin = Span("   next".ljust(_MARGIN + 3), Style.LABEL), Span(" " * (_MARGIN + 3))
    return [(head if at == 0 else margin, *each) for at, each in enumerate(lines)]


@costs_itself(lambda *_: [], part="steps in text")
def _steps(steps: tuple[NextStep, ...], width: int) -> list[Line]:
    lines: list[Line] = []
    for text, command in step_lines(steps, width - 2):
        lines += [*text, command] if command is not None else text
    return lines


def _section(section: Section, width: int) -> list[Line]:
    head = paragraph(section.head, width - 2)
    texts = indented(hanging(section.texts, width - 4), 2) if head else hanging(section.texts, width - 2)
    body = [*head, *texts, *section.lines, *(_steps(section.steps, width) if section.steps else [])]
    return [EMPTY, line(section.title, Style.BOLD), *indented(body, 2)]
