"""Step G of the verdict, of files: may the job have been running when its dumps were written?"""

from itertools import pairwise

from collector.align.observations import Observations
from collector.align.roster import RankView
from collector.align.stacks.activity import place
from collector.align.stacks.phases import prepares_data
from collector.align.thresholds import BUSY_SECONDS
from collector.judge.fault import NEVER_PASSES, Fault
from collector.judge.report.headline import Interpretation
from shared.answer.words import Kind, Verdict
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Trace


def doubt_of_files(fault: Fault, observations: Observations) -> Interpretation | None:
    """Had those who wait waited for longer than a job that runs may, when their dumps were written?

    A small difference of times excuses. That a file is old accuses nobody: it may be a copy. Of stacks alone, who is at
    work that the others rightly wait for until it is done looks the same in a job that runs.
    """
    prepared = _prepared_for_all(fault, observations)
    if prepared:
        return Interpretation(Verdict.CANNOT_TELL, prepared)
    if not fault.edges or (fault.kind in NEVER_PASSES and fault.kind is not Kind.RANK_EXITED):
        return None
    waits = (_written_after(observations.roster.ranks[edge.waiter], edge.created_ns) for edge in fault.edges)
    waited = max((each for each in waits if each is not None), default=None)
    needed = min(observations.motion.needed(busy=False), BUSY_SECONDS)
    moved = observations.motion.between_files
    if (waited is None and not moved) or (waited is not None and waited >= needed):
        return None
    since = "" if waited is None else f", and no rank had waited for {waited:.2f} s when the last was written"
    if moved:
        who = ranks_in_words(sorted(moved))
        return Interpretation(Verdict.CANNOT_TELL, f"{who} moved between the last two dumps{since}")
    reason = f"when the dumps were written, no rank had waited for longer than {waited:.2f} s, as in any job that runs"
    return Interpretation(Verdict.CANNOT_TELL, reason)


def _prepared_for_all(fault: Fault, observations: Observations) -> str:
    """Say who prepares data while the others wait, and where; empty where that is not all that is seen."""
    seen = [observations.activities.get(rank) for rank in fault.culprits]
    if fault.kind is not Kind.RANK_NOT_JOINED or fault.edges or not seen:
        return ""
    if any(each is None or not prepares_data(each.frames) for each in seen):
        return ""
    at = next((f" at {place(each.user)}" for each in seen if each is not None and each.user is not None), "")
    who, others = ranks_with(fault.culprits, "is", "are"), ranks_with(fault.victims, "waits", "wait")
    return (
        f"{who} preparing a data set{at}, and {others} for that, as in many a job that starts: a second look shows "
        "whether it goes on"
    )


def _written_after(view: RankView, created_ns: int) -> float | None:
    """Seconds from an operation's beginning to the file that shows it unfinished; None: nothing tells.

    A copy of a file may be younger than the dump. That shows where it claims to have been written when operations had
    been issued that it does not hold.
    """
    last = view.looks[-1].recorded_at_ns if view.looks else None
    if last is None or not created_ns or last < created_ns:
        return None
    for before, after in pairwise(view.looks):
        if isinstance(before.recorder, Trace) and isinstance(after.recorder, Trace) and before.recorded_at_ns:
            newest = max(before.recorder.created_ns, default=0)
            if any(newest < begun < before.recorded_at_ns for begun in after.recorder.created_ns):
                return None
    return (last - created_ns) / 1e9
