"""The table of healthy jobs: what was said at each look, what of it is wrong, and how each job ended."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.system.live.healthy.programs import Program

Look = Mapping[str, Any]

HUNG = 10
STATUSES = {0: "not hung", 11: "slow", 12: "cannot tell", HUNG: "**hung**"}
NOBODY_THERE = "no ranks were found"
"""What is said between two lives of a short job, and of one that has not started its ranks."""

HEADER = """\
| program | origin | while others wait | said | load | job |
| --- | --- | --- | --- | --- | --- |
"""


class Outcome(NamedTuple):
    """What became of one program: its looks as looking.py tells them."""

    program: Program
    result: Mapping[str, Any]

    @property
    def looks(self) -> Sequence[Look]:
        """Give the looks, in their order."""
        looks: Sequence[Look] = self.result["looks"]
        return looks

    @property
    def failed(self) -> bool:
        """Did the job not do what a healthy one does?"""
        return not self.looks or self.result["status"] not in (0, None)

    def wrong(self) -> Iterator[str]:
        """Say what is false of each look: "hung" always, and a culprit who holds nobody up."""
        for number, look in enumerate(self.looks, start=1):
            if why := _wrong_in(look, self.program):
                yield f"look {number}, {look['asked_at']} s: {why}: {look['headline']}"

    def __str__(self) -> str:
        """For a terminal: the looks, and below them what is wrong."""
        lines = [f"{self.program.name:28} {_looks(self.looks):40} {_end(self.result)}"]
        if self.failed:
            lines.append(f"the job failed: {self.result.get('failed', '')}")
        return "\n    ".join([*lines, *self.wrong()])


def table(outcomes: Sequence[Outcome]) -> str:
    """Return all as Markdown."""
    return f"{HEADER}{''.join(map(_row, outcomes))}\n{summary(outcomes)}\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Count looks at jobs that did what healthy ones do, by what was said."""
    good = [outcome for outcome in outcomes if not outcome.failed]
    looks = [look for outcome in good for look in outcome.looks]
    counts = [f"{word} {sum(look['status'] == status for look in looks)}" for status, word in STATUSES.items()]
    unseen = sum(look["status"] not in STATUSES for look in looks)
    innocents = sum("innocent" in each for outcome in good for each in outcome.wrong())
    return (
        f"{len(good)} programs, {len(looks)} looks: {', '.join(counts)}, no rank there {unseen}; innocents {innocents}"
    )


def _row(outcome: Outcome) -> str:
    program, load = outcome.program, str(outcome.result.get("load", ""))
    cells = (
        f"`{program.name}`",
        program.origin,
        program.waits,
        _looks(outcome.looks),
        load,
        _end(outcome.result),
    )
    return f"| {' | '.join(cells)} |\n"


def _looks(looks: Sequence[Look]) -> str:
    """Return exit statuses, and in brackets who was named."""
    return ", ".join(
        f"{look['status']}" + (f" ({','.join(map(str, _named(look)))})" * bool(_named(look))) for look in looks
    )


def _end(result: Mapping[str, Any]) -> str:
    return "went on" if result["status"] is None else f"ended with {result['status']}"


def _named(look: Look) -> list[int]:
    return sorted({rank for finding in look["findings"] for rank in finding["culprits"]})


def _wrong_in(look: Look, program: Program) -> str:
    if look["status"] == HUNG:
        return "called hung"
    if program.held_by is not None and not program.held_by.issuperset(_named(look)):
        return "an innocent is named"
    known = look["status"] in STATUSES or NOBODY_THERE in look["headline"]
    return "" if known else "no answer"
