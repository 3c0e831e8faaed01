"""A preflight as a table, for people."""

import textwrap
from collections.abc import Iterator

from cli.preflight.stages.together import in_words
from cli.tables.table import table
from cli.terminal import escape
from shared.answer.checks import Severity
from shared.answer.preflight import NodeState, PreflightFinding, PreflightReport

_MOST_NODES = 64
"""Rows of nodes; the good ones beyond are counted."""


def render_preflight(report: PreflightReport, *, width: int) -> str:
    """Return the whole report."""
    parts = [report.headline, "", *_stages(report)]
    for number, finding in enumerate(report.findings, start=1):
        parts += ["", *_finding(number, finding, width)]
    parts += ["", *_nodes(report)]
    wrong = [check for check in report.checks if check.severity is not Severity.NOTE]
    if wrong:
        parts += ["", "Settings"]
        for check in wrong:
            parts += _wrapped(f"{check.severity}: {check.seen}; {check.change}", width)
    if report.untested:
        parts += ["", "Not tested"]
        for line in report.untested:
            parts += _wrapped(line, width)
    if report.drain:
        parts += ["", "To take the bad nodes out of service"]
        parts += [f"  {each.scheduler:<11} {each.command}" for each in report.drain]
    return escape("".join(f"{line}\n" for line in parts))


def _wrapped(text: str, width: int, indent: str = "  ") -> list[str]:
    inner = indent + "  "
    return textwrap.wrap(text, max(40, width), initial_indent=indent, subsequent_indent=inner, break_long_words=False)


def _stages(report: PreflightReport) -> Iterator[str]:
    rows = [
        (each.name, each.outcome, str(each.trials or ""), f"{each.took_seconds:.1f} s", each.text)
        for each in report.stages
    ]
    yield from table(("stage", "outcome", "trials", "took", ""), rows)


def _finding(number: int, finding: PreflightFinding, width: int) -> Iterator[str]:
    path = f", {finding.path}" if finding.path else ""
    yield from _wrapped(f"{number}. {finding.kind}{path}: {finding.text}", width, indent="")
    for name, lines in (("evidence", finding.evidence), ("unhang", (finding.diagnosis,)), ("check", (finding.hint,))):
        for line in (each for each in lines if each):
            yield from _wrapped(f"{name:<9} {line}", width, indent="   ")


def _nodes(report: PreflightReport) -> Iterator[str]:
    ordered = sorted(report.nodes, key=lambda node: (node.state is NodeState.GOOD, node.node))
    shown = ordered[:_MOST_NODES]
    rows = [
        (node.host, node.state.value, in_words(node.bytes_per_second) if node.bytes_per_second else "")
        for node in shown
    ]
    yield from table(("node", "state", "bandwidth in pairs"), rows)
    if len(ordered) > len(shown):
        yield f"and {len(ordered) - len(shown)} more"
