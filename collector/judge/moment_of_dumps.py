"""Step G of the verdict, of files: may the job have been running when its dumps were written?

One dump of each rank shows a moment, in which somebody waits for somebody in every job that runs. What says more:

1. What cannot pass, such as calls that do not match, or collectives in different orders, needs no time.
2. Watchdogs of NCCL and its like write dumps after a timeout. Of Gloo somebody asked for them, who knows when.
3. Several dumps of a rank show whether it moved, or for how long it stood still. One set shows neither: in a hung job
   nothing is issued either after what the others wait in, so that its newest records are as near each other. Equal
   files are one look, unless a date beside them says otherwise (`files/merge.py`), and then the first must have
   been written once the job had stood for longer than usual.
4. The times of files excuse where they are near what is waited in. Alone they accuse nobody: copying gives new ones.
5. Who lacks an operation that another member has completed, which takes all of them, left a dump of an earlier moment.
6. A watchdog writes its dump once an operation has timed out: where files are older or much younger than that, they are
   copies, or somebody asked for them, and how long anybody had waited is inferred from their dates alone.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

from collector.align.groups.signature_rules import NEEDS_ALL
from collector.align.observations import Observations
from collector.align.progress import JobMotion
from collector.align.roster import ByRank, RankView
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.phases import prepares_data
from collector.align.thresholds import (
    BUSY_SECONDS,
    DUMPS_APART,
    FILE_CLOCK_SECONDS,
    FROZEN_GAPS,
    FROZEN_SECONDS,
    LATE_DUMP,
    LEAST_APART_SECONDS,
    SECOND_DUMP_SECONDS,
)
from collector.judge.certainty import Support, unproven
from collector.judge.fault import NEVER_PASSES, Fault
from collector.judge.report.headline import Interpretation, cannot_tell, reason
from collector.judge.report.summaries import waiting_in
from collector.judge.slow.held_up import timeout_of
from shared.answer.words import Kind, Verdict
from shared.isolation import costs_itself
from shared.units import seconds_in_words
from shared.wire.trace import Trace


def doubt_of_files(fault: Fault, observations: Observations) -> Interpretation | None:
    """Had those who wait waited for longer than a job that runs may, when their dumps were written?

    Of stacks alone, who is at work that the others rightly wait for until it is done looks the same in a job that runs.
    """
    prepared = _prepared_for_all(fault, observations.activities)
    if prepared:
        return Interpretation(Verdict.CANNOT_TELL, prepared)
    if _cannot_pass(fault):  # 1
        return None
    older = _of_older_dumps(fault)
    if older is not None:
        return older
    waited = _waited(fault, observations)
    moved = observations.motion.between_files
    asked_for = _asked_for(fault, observations)
    if (
        moved and (fault.edges or asked_for) and (asked_for or waited is None or waited < _needed(observations.motion))
    ):  # 3
        words = {"moved": moved} | ({} if waited is None else {"waited": waited})
        again = _seconds_apart(observations.motion) if asked_for else None
        return cannot_tell("moved_between_dumps", words, second_dump_after=again)
    if asked_for:  # 2
        return _doubt_of_one_look(fault, observations)
    if not fault.edges or waited is None or waited >= _needed(observations.motion):
        return None
    return cannot_tell("young_dumps", {"waited": waited})  # 4


@costs_itself(lambda fault, observations: fault.resting_on(Support.PART_FAILED))
def lasting_by_files(fault: Fault, observations: Observations) -> Fault:
    """Return how sure it is where nothing but the times of two equal sets tells that it lasts."""
    if observations.roster.live or _cannot_pass(fault):
        return fault
    if not _asked_for(fault, observations):
        return _by_dates_alone(fault, observations)
    stacks = any(each.frames for each in observations.seen(fault.culprits))
    if fault.kind is Kind.RANK_NOT_JOINED and fault.blames_somebody and not stacks:
        return fault.resting_on(Support.ELIMINATION)
    return replace(fault, certainty=unproven(fault.certainty, Support.FILE_TIMES))


def _by_dates_alone(fault: Fault, observations: Observations) -> Fault:
    """6."""
    waited, limit = _waited(fault, observations), timeout_of(fault, observations)
    if waited is None or limit is None or fault.named_by or fault.evidence or limit <= waited <= LATE_DUMP * limit:
        return fault
    told = f"{seconds_in_words(waited)} by the dates of the files, where the operation times out after"
    again = f"two dumps of each rank {_seconds_apart(observations.motion)} s apart would show whether it lasts"
    remark = f"others had waited for {told} {seconds_in_words(limit)}: if these are copies, {again}"
    return replace(fault, certainty=unproven(fault.certainty, Support.FILE_TIMES), remarks=(*fault.remarks, remark))


def _waited(fault: Fault, observations: Observations) -> float | None:
    """Seconds for which somebody had waited when his dump was written, by its date."""
    waits = (_written_after(observations.roster.ranks[edge.waiter], edge.created_ns) for edge in fault.edges)
    return max((each for each in waits if each is not None), default=None)


def _of_older_dumps(fault: Fault) -> Interpretation | None:
    """5."""
    for edge in fault.edges:
        if edge.sequence is None or edge.signature.op not in NEEDS_ALL:
            continue
        done, lacking = edge.group.completed_at(edge.sequence), edge.group.absent_at(edge.sequence)
        if done and set(lacking) & set(fault.culprits):
            words = {"done": done, "ranks": lacking, "op": edge.signature.op, "number": edge.sequence}
            return cannot_tell("older_dumps", words)
    return None


def _needed(motion: JobMotion) -> float:
    return min(motion.needed(busy=False), BUSY_SECONDS)


def _seconds_apart(motion: JobMotion) -> int:
    return max(SECOND_DUMP_SECONDS, math.ceil(motion.needed(busy=False)))


def _cannot_pass(fault: Fault) -> bool:
    """Does no time heal it? A receive that was posted early is in no circle: its rank goes on, and will send."""
    never = fault.kind in NEVER_PASSES and fault.kind is not Kind.RANK_EXITED
    return never and not any(edge.is_p2p for edge in fault.cycle)


def _asked_for(fault: Fault, observations: Observations) -> bool:
    """Did somebody ask the ranks for all that tells of the fault, and may have at any time?"""
    traces = [trace for trace in observations.traces.values() if len(trace)]
    return bool(traces) and not fault.named_by and not fault.evidence and all(map(_is_of_gloo, traces))


def _is_of_gloo(trace: Trace) -> bool:
    """Is it of PyTorch's own Gloo, which has no watchdog? torchcomms counts from 0, and has one."""
    from_zero = any(not number and not p2p for number, p2p in zip(trace.collective_seq, trace.is_p2p, strict=True))
    return not from_zero and all(trace.created_ns) and {one.backend for one in trace.signatures} == {"gloo"}


def _doubt_of_one_look(fault: Fault, observations: Observations) -> Interpretation | None:
    """3. Several looks show that a job stands still, if their files tell how far apart they are."""
    still = _stood_still({*fault.culprits, *fault.victims}, observations)
    if still is not None and still >= max(observations.motion.needed(busy=False), LEAST_APART_SECONDS):
        return None
    words: dict[str, object] = {"waits": waiting_in(fault)} | ({} if still is None else {"still": still})
    again = {"twice": ""} if any(len(view.looks) > 1 for view in observations.roster.present()) else {}
    return cannot_tell("one_look", words | again, second_dump_after=_seconds_apart(observations.motion))


def _stood_still(ranks: Collection[int], observations: Observations) -> float | None:
    """Seconds between dumps of each of these ranks, if it left any, that hold the same; None where nothing says.

    Who copies two looks with new times gives them to each rank alike at best, and does so after the last operation. Of
    a job that runs the original is no older than its usual pause, whatever its copy says.
    """
    views = [observations.roster.ranks[rank] for rank in ranks if rank in observations.traces]
    usual = observations.motion.usual_gap_seconds
    pause = FROZEN_SECONDS if usual is None else max(FROZEN_GAPS * usual, FILE_CLOCK_SECONDS)
    spans = [_unchanged_for(view, int(pause * 1e9)) for view in views]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(views) or max(known) > DUMPS_APART * min(known):
        return None
    return min(known)


def _unchanged_for(view: RankView, pause_ns: int) -> float | None:
    last = view.looks[-1]
    alike = [look for look in view.looks if look.recorder == last.recorder]
    times = [look.recorded_at_ns for look in alike if look.recorded_at_ns is not None]
    if len(times) < 2 or len(times) < len(alike) or min(times) < view.newest_ns + pause_ns:
        return None
    return (max(times) - min(times)) / 1e9


def _prepared_for_all(fault: Fault, activities: ByRank[Activity]) -> str:
    """Say who prepares data while the others wait, and where; empty where that is not all that is seen."""
    seen = [activities.get(rank) for rank in fault.culprits]
    if fault.kind is not Kind.RANK_NOT_JOINED or fault.edges or not seen:
        return ""
    if any(each is None or not prepares_data(each.frames) for each in seen):
        return ""
    at = next((f" at {place(each.user)}" for each in seen if each is not None and each.user is not None), "")
    return reason("prepared", {"ranks": fault.culprits, "victims": fault.victims, "at": at})


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
