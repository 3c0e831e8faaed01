"""What a job was found hung with goes on to be its fault when its ranks give up and exit.

1. A watchdog, a timeout or a person ends ranks of a job that hangs. They are gone because of the hang: that one of them
   is gone is no fault of its own, and who made them wait is who was named then.
2. That holds where these are the very processes that were looked at then, as far as the named ones' ids show, and where
   what agents last read of the waiting ones shows that none has issued anything since. What they stood in may count as
   completed by then: a watchdog that aborts an operation counts it so.
3. Who ended otherwise (killed alone, out of memory, by a crash) may be at fault for what came after.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from collector.align.observations import Observations
from collector.judge.certainty import Sure
from collector.judge.ended_first import endings_of, how_they_ended
from collector.judge.fault import Fault
from shared.answer.diagnosis import Finding
from shared.answer.words import Kind
from shared.rank_sets import unfold
from shared.wire.snapshot import Exited

_SECOND = 1_000_000_000


def still_hung(faults: Sequence[Fault], observations: Observations) -> Fault | None:
    """Return what the job hung with before ranks of it exited, where these blame nobody for more than having exited."""
    blaming = [fault for fault in faults if fault.culprits]
    hung = None if any(fault.kind is not Kind.RANK_EXITED for fault in blaming) else fault_before(observations)
    exited = {rank for fault in blaming for rank in fault.culprits}
    return None if hung is None or not exited <= {*hung.culprits, *hung.victims} else hung


def fault_before(observations: Observations) -> Fault | None:
    """Return what the job was found hung with before ranks of it ended; None: nothing, or it is not what ended them."""
    hung = observations.found_hung
    if hung is None:
        return None
    found, endings = hung.findings[0], endings_of(observations.roster.gone())
    if not found.culprits or endings.first or endings.is_cancelled or not _stood(found, hung.made_at, endings.of):
        return None
    return Fault(
        kind=found.kind,
        culprits=found.culprit_ranks,
        victims=tuple(unfold(found.victims)),
        certainty=Sure(found.certainty, 1, found.certainty_reason),
        cause=found.cause,
        op=found.op,
        sequence=found.sequence,
        ref=found.group,
        remarks=(*found.remarks, f"it was found so at {hung.made_at}, before ranks of it ended"),
        evidence=found.evidence,
        links=found.links,
        where=found.where,
        said=f"{found.summary}; then {how_they_ended(endings.of)}",
    )


def _stood(found: Finding, made_at: str, ended: Mapping[int, Exited]) -> bool:
    """Step 2."""
    if any(each.pid not in (None, ended[each.rank].pid) for each in found.culprits if each.rank in ended):
        return False
    looked = int(datetime.fromisoformat(made_at).timestamp() * _SECOND)
    waiting = {*unfold(found.victims), *found.culprit_ranks}
    read = {rank: exited.last_marks.groups for rank, exited in ended.items() if exited.last_marks and rank in waiting}
    issued = [mark.issued_at_ns for groups in read.values() for mark in groups]
    return bool(issued) and max(issued) <= looked
