"""All checks of one job. A new one is a function, or a row of a table, and a line in the tuple of its file."""

from collections.abc import Sequence

from collector.diagnose.check.facts import Rule, facts_of
from collector.diagnose.check.meeting import MEETING
from collector.diagnose.check.settings import RULES
from collector.diagnose.check.start import START
from collector.diagnose.check.surroundings import SURROUNDINGS
from collector.diagnose.expected import Expected
from shared.checks import Check, Severity
from shared.snapshot import NodeSnapshot

EVERY: tuple[Rule, ...] = (*MEETING, *SURROUNDINGS, *START, *RULES)

_ORDER = (Severity.WRONG, Severity.RISKY, Severity.NOTE)


def check_job(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[Check, ...]:
    """Return what is not as it should be, the worst first; () where nothing is, or nothing is known.

    The order of the snapshots changes nothing.
    """
    facts = facts_of(snapshots, expected)
    found = [check for rule in EVERY for check in rule(facts)]
    return tuple(sorted(found, key=lambda check: _ORDER.index(check.severity)))
