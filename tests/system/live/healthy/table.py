"""The table of healthy jobs: what was said at each look, what of it is wrong, and how each job ended."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.system.live.healthy.programs import Program


class Outcome(NamedTuple):
    """What became of one program: its looks as looking.py tells them."""

    program: Program
    result: Mapping[str, Any]

    @property
    def looks(self) -> Sequence[Mapping[str, Any]]:
        """Give the looks, in their order."""
        looks: Sequence[Mapping[str, Any]] = self.result["looks"]
        return looks

    @property
    def failed(self) -> bool:
        """Did the job not do what a healthy one does?"""
        return not self.looks or self.result["status"] not in (0, None)

    def wrong(self) -> list[str]:
        """Say what is false of each look: "hung" always, and a culprit who holds nobody up."""
        return [said for number, look in enumerate(self.looks, 1) for said in _wrong_in(number, look, self.program)]


def _wrong_in(number: int, look: Mapping[str, Any], program: Program) -> list[str]:
    if look["status"] == 10 or look["verdict"] in ("hung", "died"):
        return [f"look {number}: {look['headline']}"]
    named = {rank for finding in look["findings"] for rank in finding["culprits"]}
    if program.held_by is not None and named - program.held_by:
        return [f"look {number} names an innocent: {look['headline']}"]
    return [f"look {number}: no answer, {look['headline']}"] if look["status"] not in (0, 11, 12) else []


def said(look: Mapping[str, Any]) -> str:
    """Put one look into few words: when it was asked, its exit status, and who was named."""
    named = sorted({rank for finding in look["findings"] for rank in finding["culprits"]})
    ranks = f" [{','.join(map(str, named))}]" if named else ""
    return f"{look['verdict']}{ranks}"


HEADER = "| program | origin | while others wait | looks: exit status (rank named) | hung | job ended |\n|---|---|---|---|---|---|"


def row(outcome: Outcome) -> str:
    """Return one row of the table in Markdown."""
    looks = ", ".join(_short(look) for look in outcome.looks) or "none"
    hung = sum(look["status"] == 10 for look in outcome.looks)
    status = outcome.result["status"]
    ended = "went on" if status is None else str(status)
    program = outcome.program
    return f"| {program.name} | {program.origin} | {program.waits} | {looks} | {hung or ''} | {ended} |"


def _short(look: Mapping[str, Any]) -> str:
    named = sorted({rank for finding in look["findings"] for rank in finding["culprits"]})
    return f"{look['status']}" + (f" ({','.join(map(str, named))})" if named else "")


def summary(outcomes: Sequence[Outcome]) -> str:
    """Count."""
    good = [outcome for outcome in outcomes if not outcome.failed]
    looks = [look for outcome in good for look in outcome.looks]
    by_status = {status: sum(look["status"] == status for look in looks) for status in (0, 10, 11, 12)}
    other = len(looks) - sum(by_status.values())
    return (
        f"{len(good)} programs, {len(looks)} looks: not hung {by_status[0]}, slow {by_status[11]}, cannot tell "
        f"{by_status[12]}, **hung {by_status[10]}**, without an answer {other}; "
        f"innocents named in {sum('innocent' in each for outcome in good for each in outcome.wrong())}"
    )
