"""What is said of what a check has found: why it matters, and what to change, by `sayings.toml`."""

from collections.abc import Sequence
from typing import NamedTuple

from collector.checks.facts import RankFacts, hosts_of
from shared.answer.checks import Check, CheckId, Severity
from shared.packs import read_pack
from shared.rank_sets import fold

_MOST_HOSTS = 64


class Saying(NamedTuple):
    """What is said of all that one check finds: a row of `sayings.toml`."""

    check: CheckId
    severity: Severity
    why: str
    change: str


SAYINGS = {
    row["name"]: Saying(CheckId(row["check"]), Severity(row["severity"]), row["why"], row["change"])
    for row in read_pack(__file__, "sayings.toml")["rows"]
}


def said(
    row_name: str, who: Sequence[RankFacts], /, *, seen: str, severity: Severity | None = None, **named: object
) -> Check:
    """Return a check about these processes in the words of that row, in which `named` stand for their names."""
    row = SAYINGS[row_name]
    change = row.change.format(**named)
    return check_of(row.check, severity or row.severity, who, seen=seen, why=row.why, change=change)


def check_of(what: CheckId, severity: Severity, who: Sequence[RankFacts], *, seen: str, why: str, change: str) -> Check:
    """Return a check about these processes."""
    return Check(
        id=what,
        severity=severity,
        ranks=fold(each.rank for each in who),
        hosts=hosts_of(who)[:_MOST_HOSTS],
        seen=seen,
        why=why,
        change=change,
    )
