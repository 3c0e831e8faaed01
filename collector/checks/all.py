"""All checks of one job. A new one is a function, or a row of a table, and a line in the tuple of its file."""

from collections.abc import Sequence

from collector.align.expected import Expected
from collector.checks.environment import RULES
from collector.checks.facts import JobFacts, Rule, facts_of
from collector.checks.launch import START
from collector.checks.nccl_versions import NCCL_VERSIONS
from collector.checks.nodes import SURROUNDINGS
from collector.checks.rendezvous import MEETING
from shared.answer.checks import Check, Severity
from shared.isolation import costs_itself
from shared.wire.snapshot import NodeSnapshot

EVERY: tuple[Rule, ...] = (*MEETING, *SURROUNDINGS, *START, *NCCL_VERSIONS, *RULES)

_ORDER = (Severity.WRONG, Severity.RISKY, Severity.NOTE)


@costs_itself(lambda *_: (), part="launch checks")
def check_job(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[Check, ...]:
    """Return what is not as it should be, the worst first; () where nothing is, or nothing is known.

    The order of the snapshots changes nothing.
    """
    facts = facts_of(snapshots, expected)
    found = [check for rule in EVERY for check in _checked(rule, facts)]
    return tuple(sorted(found, key=lambda check: _ORDER.index(check.severity)))


@costs_itself(lambda *_: (), part="a launch check")
def _checked(rule: Rule, facts: JobFacts) -> tuple[Check, ...]:
    return tuple(rule(facts))
