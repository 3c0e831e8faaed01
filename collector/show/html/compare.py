"""Two diagnoses side by side: what is the same, and what is not."""

from collector.show.text.frames import place_text
from collector.show.text.waits import operation_text, ranks_text
from shared.answer.diagnosis import Diagnosis, Finding
from shared.value import Value


class ComparedFact(Value):
    """One fact of both."""

    name: str
    left: str
    right: str
    differ: bool


def comparison(left: Diagnosis, right: Diagnosis) -> tuple[ComparedFact, ...]:
    """Return what the verdicts and the first findings of two diagnoses say, fact by fact."""
    ours, theirs = _facts(left), _facts(right)
    both = {name: (ours.get(name, "–"), theirs.get(name, "–")) for name in ours | theirs}
    return tuple(ComparedFact(name=n, left=one, right=other, differ=one != other) for n, (one, other) in both.items())


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    first = diagnosis.findings[0] if diagnosis.findings else None
    facts = {
        "job": diagnosis.job or "–",
        "made at": diagnosis.made_at or "–",
        "verdict": diagnosis.verdict.value,
        "findings": str(len(diagnosis.findings)),
        **({} if first is None else _of_finding(first)),
        "ranks seen": str(diagnosis.coverage.seen),
    }
    return {name: value for name, value in facts.items() if value}


def _of_finding(finding: Finding) -> dict[str, str]:
    hosts = sorted({culprit.host for culprit in finding.culprits if culprit.host is not None})
    where = finding.where
    place = None if where is None else where.user or where.library
    return {
        "kind": finding.kind.value,
        "cause": finding.cause.value,
        "certainty": finding.certainty.value,
        "culprits": ", ".join(f"rank {rank}" for rank in finding.culprit_ranks[:8])
        + (f" and {len(finding.culprits) - 8} more" if len(finding.culprits) > 8 else ""),
        "hosts": ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else ""),
        "where": "" if place is None else place_text(place),
        "operation": operation_text(finding.op, finding.sequence, finding.group),
        "victims": ranks_text(finding.victims) if finding.victims else "",
        "since": finding.since or "",
    }
