"""The act: what to do now, why, and what it would cost."""

from collector.show.text.layout import Line, Span, Style, labelled, paragraph
from collector.show.text.printable import printable
from shared.answer.action import Action
from shared.answer.diagnosis import NextStep
from shared.answer.words import Act

KEEP = "`diagnose --save DIR` keeps them"


def action_title(action: Action) -> str:
    """Return the act in the words of the API, and what it is as a sentence."""
    on = f" (until {action.until})" if action.until is not None else ""
    return f"{action.do}: {action.text}{on}" if action.text != action.do else action.do.value


def action_notes(action: Action) -> list[str]:
    """Return why, and what is kept and lost, a sentence each."""
    why = [] if action.do is Act.NOTHING else [f"because {action.reason}"] if action.reason else []
    lost = [f"a restart loses {action.lost}{'' if action.kept else f': {KEEP}'}"] if action.lost else []
    return [*why, *lost, *([f"kept: {action.kept}"] if action.kept else [])]


def action_lines(action: Action, columns: int, width: int) -> list[Line]:
    """Return the act as a block under its label; its command is never wrapped, so that it can be copied."""
    lines = paragraph(printable(action_title(action)), width - columns, Style.BOLD)
    if action.command is not None:
        on = f"on {printable(action.host, most=80)} " if action.host is not None else ""
        lines.append((Span(f"{on}$ ", Style.DIM), Span(printable(action.command), Style.BOLD)))
    for note in action_notes(action):
        lines += paragraph(printable(note), width - columns, Style.DIM)
    return labelled("act", lines, columns)


def besides(steps: tuple[NextStep, ...], action: Action | None) -> tuple[NextStep, ...]:
    """Return the steps that the act does not say already."""
    return tuple(step for step in steps if action is None or step.text != action.text)
