"""The verdict for a chat or a ticket: prose and lists outside, whatever must keep its columns inside fences.

Foreign text can break out of neither: outside of fences it is escaped, for Markdown and HTML, and cannot call people
or make links; inside of them it holds no run of backticks that could close one.
"""

import re
from collections.abc import Iterable, Sequence

from collector.show.text.action import action_notes, action_title, besides
from collector.show.text.classes import shown_stacks
from collector.show.text.findings import finding_blocks, why_certain
from collector.show.text.layout import Line, fitted, plain
from collector.show.text.printable import printable
from collector.show.text.sections import Section, not_shown, sections
from collector.show.text.text import about_text, headline_text
from shared.answer.action import Action
from shared.answer.diagnosis import Diagnosis, Finding, NextStep
from shared.isolation import costs_itself, failures_told

_WIDTH = 96
"""Width of code blocks: what a ticket shows without scrolling sideways."""

_MOST_FINDINGS = 10

_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MENTION = re.compile(r"@(?=\w)")
_LINK = re.compile(r"(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
_TICKS = re.compile(r"`{3,}")
_CALL = re.compile(r"<(?=[!@#])")  # <!channel>, <@U024BE7LH>: Slack acts on them in code too


def render_markdown(diagnosis: Diagnosis) -> str:
    """Return the verdict as Markdown (CommonMark)."""
    with failures_told() as failures:
        parts = [f"**{escaped(headline_text(diagnosis))}**", escaped(about_text(diagnosis)), *_act(diagnosis.action)]
        for number, finding in enumerate(diagnosis.findings, 1):
            parts += _finding(finding, number, diagnosis)
        for section in sections(diagnosis, _WIDTH):
            parts += _section(section)
    return "\n\n".join([*parts, *(_section(not_shown(failures)) if failures else [])]) + "\n"


def _section(section: Section) -> list[str]:
    if section.steps:
        return _steps(section.title, section.steps)
    if section.lines:
        return [f"{section.title}:", fenced(section.lines)]
    texts = [section.head, *section.texts] if section.head else section.texts
    return [f"{section.title}:", "\n".join(f"- {escaped(text)}" for text in texts)]


def _act(action: Action | None) -> list[str]:
    if action is None:
        return []
    notes = [f"Act: **{escaped(action_title(action))}**", *map(escaped, action_notes(action))]
    return ["  \n".join(notes), *([] if action.command is None else [_shell(action.command)])]


def _shell(command: str) -> str:
    return fenced_text([printable(command)]).replace("```text", "```sh", 1)


def escaped(text: str) -> str:
    """Return foreign text as Markdown that shows it and does nothing: no markup, HTML, link or mention."""
    shown = "".join(_HTML.get(char, char) for char in printable(text))
    marked = _SPECIAL.sub(lambda match: f"\\{match[0]}", shown)
    return _LINK.sub(lambda match: f"&#{ord(match[0])};", _MENTION.sub("＠", marked))


def fenced(lines: Iterable[Line]) -> str:
    """Return `lines` as a block of code."""
    return fenced_text(plain(lines))


def fenced_text(lines: Iterable[str]) -> str:
    """Return printable text lines as a block of code; what could close it or call people is written as escapes."""
    body = "\n".join(_CALL.sub(r"\\x3c", _TICKS.sub(lambda match: r"\x60" * len(match[0]), each)) for each in lines)
    return f"```text\n{body}\n```"


@costs_itself(lambda finding, number, diagnosis: [escaped(finding.summary)], part="a finding in Markdown")
def _finding(finding: Finding, number: int, diagnosis: Diagnosis) -> list[str]:
    if number > _MOST_FINDINGS:
        return [f"… {len(diagnosis.findings) - _MOST_FINDINGS} more"] if number == _MOST_FINDINGS + 1 else []
    certainty = f"**{finding.certainty}** ({escaped(why_certain(finding))})"
    title = f"**{number}. {finding.kind}**, cause {finding.cause}, {certainty}"
    summary = [] if finding.summary in diagnosis.headline else [escaped(finding.summary)]
    return [
        title,
        *summary,
        *_blocks(finding, diagnosis),
        *_steps("Next", besides(finding.next_steps, diagnosis.action)),
    ]


def _blocks(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """The finding's blocks, as the terminal shows them, in one fence."""
    lines: list[str] = []
    for label, block in finding_blocks(finding, _WIDTH - 12, shown=shown_stacks(diagnosis)):
        body = plain(fitted(block, _WIDTH - 12))
        lines += [f"{label if at == 0 else '':<12}{text}".rstrip() for at, text in enumerate(body)]
    return [fenced_text(lines)] if lines else []


def _steps(title: str, steps: Sequence[NextStep]) -> list[str]:
    if not steps:
        return []
    return [f"{title}:", *(_step(step, number) for number, step in enumerate(steps, start=1))]


def _step(step: NextStep, number: int) -> str:
    text = f"{number}. {escaped(step.text)}"
    if step.command is None:
        return text
    return f"{text}\n\n" + "\n".join(f"   {each}" for each in _shell(step.command).splitlines())
