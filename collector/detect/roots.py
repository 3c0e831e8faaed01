"""What holds a job, where that may hold other jobs as well: equal roots of two jobs are one cause, and one incident.

Only what is one thing by its own name counts: a device or port of a node, what a file server exports, a pipe, a node
that does not answer, a job whose rank another one waits for, and whatever one command lets go. That two jobs have the
same sort of trouble makes no root.
"""

from collections.abc import Iterator

from shared.answer.diagnosis import FdEvidence, Finding, GpuEvidence, PortEvidence
from shared.answer.words import Act, Cause, Kind

_MOST = 8


def roots_of(finding: Finding) -> tuple[str, ...]:
    """Return what holds the job of a finding, in words that are equal wherever it is the same."""
    return tuple(sorted(set(_roots(finding))))[:_MOST]


def _roots(finding: Finding) -> Iterator[str]:
    act = finding.action
    if act is not None and act.do is Act.FREE and act.command is not None:
        yield f"`{act.command}`{f' on {act.host}' if act.host else ''} frees it"
    if not finding.culprits:
        yield from (f"job {link.job}" for link in finding.chain[-1:] if link.job is not None)
    if finding.kind is Kind.RANK_UNREACHABLE:
        yield from (f"node {culprit.host}" for culprit in finding.culprits if culprit.host is not None)
    for each in finding.evidence:
        match each:
            case GpuEvidence(host=str(host)) if finding.cause is Cause.GPU_FAULT:
                yield f"GPU {each.device or each.index} of {host}"
            case PortEvidence(host=str(host)) if finding.cause is Cause.NETWORK:
                yield f"port {each.port} of {host}"
            case FdEvidence(mounted=str(source)):
                yield f"file system {source}"
