"""What to do, as data: when a row of `advice.toml` holds, what it says, and its command."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from collector.judge.report.case import Case
from shared.answer.diagnosis import NextStep
from shared.answer.words import Cause, Kind
from shared.packs import read_pack
from shared.shell_commands import copyable

_WORD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class AdviceRow:
    """One piece of advice. Empty `causes` or `kinds`: all of them."""

    text: str
    causes: frozenset[Cause]
    kinds: frozenset[Kind]
    facts: tuple[tuple[str, bool], ...]
    """Facts of the case, and what each must be."""
    command: tuple[str, ...]

    def step(self, case: Case) -> NextStep | None:
        """Return the step where the row holds of a case, None elsewhere."""
        if (self.causes and case.cause not in self.causes) or (self.kinds and case.kind not in self.kinds):
            return None
        if any(case.holds(name) is not wanted for name, wanted in self.facts):
            return None
        if not all(case.words[word] for word in _WORD.findall(self.text)):
            return None
        command = copyable(*(word.format(**case.words) for word in self.command)) if self.command else None
        return NextStep(text=self.text.format(**case.words), command=command)


def advice_row(row: dict[str, Any]) -> AdviceRow:
    """Return a row of a pack as a value."""
    return AdviceRow(
        row["text"],
        frozenset(map(Cause, row.get("causes", "").split())),
        frozenset(map(Kind, row.get("kinds", "").split())),
        tuple((fact.lstrip("!"), not fact.startswith("!")) for fact in row.get("when", "").split()),
        tuple(row.get("command", "").split()),
    )


SECTIONS = {name: tuple(map(advice_row, rows)) for name, rows in read_pack(__file__, "advice.toml").items()}


def advised(sections: Iterable[str], case: Case) -> Iterator[NextStep]:
    """Yield of each section the step of its first row that holds."""
    for name in sections:
        step = next(filter(None, (row.step(case) for row in SECTIONS[name])), None)
        if step is not None:
            yield step
