"""What a report says below its findings, section by section: text and Markdown write the same, each in its way."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from collector.show.text.action import besides
from collector.show.text.checks import worst_lines
from collector.show.text.classes import class_lines, culprits_of
from collector.show.text.coverage import conflict_text, coverage_text, fold_gaps, gap_text, read_lines, statement_text
from collector.show.text.layout import Line, fitted
from shared.answer.diagnosis import Diagnosis, Gap, NextStep
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.missing import Missing

MOST_TEXTS = 20
"""Sentences of one section; of further ones the number is said."""


_OPEN = Verdict.CANNOT_TELL


class Section(NamedTuple):
    """One of them, in one of three forms; without any it is left out."""

    title: str
    texts: tuple[str, ...] = ()
    """A sentence each."""
    lines: Sequence[Line] = ()
    """What keeps its columns."""
    steps: tuple[NextStep, ...] = ()
    head: str = ""
    """What the sentences are about."""


def sections(diagnosis: Diagnosis, width: int) -> Iterator[Section]:
    """Yield the sections in the order in which they are read, their lines of at most `width` columns."""
    return (section for title in _BODIES if any((section := _section(title, diagnosis, width))[1:]))


def not_shown(failures: Iterable[Missing]) -> Section:
    """Return what parts of a report could not be shown, and why."""
    return Section("Not shown", tuple(gap_text(Gap(missing=missing)) for missing in failures))


def _cut(texts: Sequence[str]) -> tuple[str, ...]:
    more = len(texts) - MOST_TEXTS
    return (*texts[:MOST_TEXTS], *([f"… {more} more in the JSON output"] if more > 0 else []))


@costs_itself(lambda title, *_: Section(title), part=lambda title, *_: f"the section {title!r}")
def _section(title: str, diagnosis: Diagnosis, width: int) -> Section:
    return Section(title, **_BODIES[title](diagnosis, width))


def _stacks(diagnosis: Diagnosis, width: int) -> list[Line]:
    return fitted(class_lines(diagnosis.stack_classes, width, culprits=culprits_of(diagnosis)), width)


def _coverage(diagnosis: Diagnosis, _: int) -> dict[str, Any]:
    gaps = [gap_text(gap) for gap in fold_gaps(diagnosis.coverage.missing)]
    return {"head": coverage_text(diagnosis.coverage), "texts": _cut(gaps)}


_BODIES: dict[str, Callable[[Diagnosis, int], dict[str, Any]]] = {
    "What is known": lambda said, _: {"texts": _cut([*map(statement_text, said.statements)])},
    "Next steps": lambda said, _: {"steps": besides(said.next_steps, said.action)},
    "Stacks": lambda said, width: {"lines": _stacks(said, width)},
    "Launch checks": lambda said, width: {"lines": worst_lines(said.checks, width)},
    # Where files leave the verdict open: what they held.
    "Files read": lambda said, width: {"lines": read_lines(said.read, width) if said.verdict is _OPEN else ()},
    "Coverage": _coverage,
    "Conflicting sources": lambda said, _: {"texts": tuple(map(conflict_text, said.conflicts))},
}
