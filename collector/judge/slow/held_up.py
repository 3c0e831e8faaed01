"""Step G of the verdict, where those who are waited for demonstrably work: held up, and when it would be called hung.

That the others wait is shown by their records, and that the rank works by what it was seen to do; whether it will ever
be done no look can tell. So it is called hung late, and then suspected at most:

1. Once the others have waited for ten minutes,
2. and for thirty times the longest pause that is known of the job: by its records, by what its agents have seen of it,
   or by earlier runs of its name,
3. and for as long as a healthy job takes for such work, where the stack tells what it is;
4. but before the job's own timeout ends it in any case.

A sleep that lasts beyond that time comes to nothing before it: who is in such a one does not work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from collector.align.observations import Observations
from collector.align.stacks.phases import ALLOWED_SECONDS, Phase
from collector.align.thresholds import HELD_UP_GAPS, HELD_UP_SECONDS, TIMEOUT_NEAR
from collector.align.work.trails import Trail
from collector.align.work.values import Work
from collector.align.work.work import works_of_children
from collector.judge.certainty import Support
from collector.judge.fault import Fault
from collector.judge.trails.in_words import named_end
from shared.answer.diagnosis import WorkEvidence
from shared.answer.words import Kind, WorkMeans
from shared.plural import either, ranks_with
from shared.rank_sets import ranks_in_words
from shared.units import seconds_in_words

_KINDS = frozenset({Kind.RANK_NOT_JOINED, Kind.P2P_UNMATCHED, Kind.STARTUP_INCOMPLETE})
"""What is said of ranks that may still come."""
_MOST_TOLD = 2
"""Things that one rank is told to be at work with."""
_MOST_RANKS_TOLD = 3
_MOST_EVIDENCE = 16


@dataclass(frozen=True)
class HungFrom:
    """When those who work would be called hung."""

    seconds: float
    """For which the others must have waited by then."""
    why: str


def when_due(fault: Fault, observations: Observations, phase: Phase | None) -> HungFrom:
    """Return how long the others must have waited until who works is called hung, and why so long."""
    due = HungFrom(HELD_UP_SECONDS, f"once the others have waited for {seconds_in_words(HELD_UP_SECONDS)}")  # 1
    usual = observations.usual_pause
    if usual is not None and HELD_UP_GAPS * usual > due.seconds:  # 2
        why = f"once the others have waited {HELD_UP_GAPS:.0f} times as long as in the longest pause known of this job"
        due = HungFrom(HELD_UP_GAPS * usual, f"{why}, {seconds_in_words(usual)}")
    if phase is not None and ALLOWED_SECONDS[phase] > due.seconds:  # 3
        allowed = ALLOWED_SECONDS[phase]
        due = HungFrom(allowed, f"for such work may take {seconds_in_words(allowed)}")
    timeout = timeout_of(fault, observations)
    if timeout is not None and TIMEOUT_NEAR * timeout < due.seconds:  # 4
        why = f"shortly before the operation that the others wait in times out, after {seconds_in_words(timeout)}"
        due = HungFrom(TIMEOUT_NEAR * timeout, why)
    return due


def timeout_of(fault: Fault, observations: Observations) -> float | None:
    """The shortest timeout of the groups in which others wait, as their records have it."""
    told = [
        group.timeout_ms / 1000
        for edge in fault.edges
        if edge.waiter in observations.traces
        for group in observations.traces[edge.waiter].groups
        if group.name == edge.group.ref.name and group.timeout_ms
    ]
    return min(told, default=None)


def at_work(fault: Fault, observations: Observations, due: HungFrom, stall: float) -> dict[int, tuple[Work, ...]]:
    """Return what each of those works with who are waited for; none where one of them does not."""
    if fault.kind not in _KINDS or fault.mismatch is not None or fault.lock is not None:
        return {}
    suspects = suspects_of(fault, observations)
    if fault.kind is Kind.STARTUP_INCOMPLETE and observations.activities.keys().isdisjoint(suspects):
        # Who has not arrived may be what another rank has started: Lightning's rank 0 starts the others.
        begun = {rank: works_of_children(observations.roster.ranks[rank]) for rank in fault.victims}
        begun = {rank: works for rank, works in begun.items() if works}
        return begun or _siblings_at_work(observations, due.seconds - stall)
    left = due.seconds - stall
    ends = {rank: told for trail in fault.trails for rank, told in works_elsewhere([trail], left).items()}
    works = {rank: _in_time(observations.works(rank), left) or ends.get(rank, ()) for rank in suspects}
    return works if works and all(works.values()) else {}


def _siblings_at_work(observations: Observations, left: float) -> dict[int, tuple[Work, ...]]:
    """What those work at who were started with the ranks that wait; nothing where one that is lacking does not.

    Of more than are lacking nobody knows which are ranks.
    """
    works: dict[int, tuple[Work, ...]] = {}
    at_work = [(each.beside, told) for each in observations.siblings if (told := _in_time(each.works, left))]
    for rank, told in at_work:
        works[rank] = (*works.get(rank, ()), told[0])
    lacking = min(len(observations.siblings), len(observations.roster.gone()))
    return works if len(at_work) >= lacking else {}


def works_elsewhere(trails: Sequence[Trail], left: float) -> dict[int, tuple[Work, ...]]:
    """Return what those work at outside the job to whom the trails of ranks lead; none where one of them does not."""
    ends = {trail.rank: (trail, () if trail.end is None else _in_time(trail.end.works, left)) for trail in trails}
    if not all(works for _, works in ends.values()):
        return {}
    return {
        rank: tuple(replace(work, what=f"waits for {named_end(trail)}, which {work.what}") for work in works)
        for rank, (trail, works) in ends.items()
    }


def suspects_of(fault: Fault, observations: Observations) -> tuple[int, ...]:
    """Who is waited for: the culprits, else whoever was seen and is not held up itself."""
    if fault.culprits:
        return fault.culprits
    return tuple(rank for rank in sorted(observations.activities) if rank not in fault.victims)


def _in_time(works: Sequence[Work], left: float) -> tuple[Work, ...]:
    return tuple(work for work in works if work.means is not WorkMeans.SLEEP or work.amount <= left)


def held_up(
    fault: Fault, works: dict[int, tuple[Work, ...]], due: HungFrom, stall: float, observations: Observations
) -> Fault:
    """Return what is to be said of those who work: not that they hang, but that the others wait."""
    inside = "" if fault.op is None else f" in {fault.op}{'' if fault.sequence is None else f' #{fault.sequence}'}"
    others = tuple(rank for rank in fault.victims if rank not in works)
    waited = f"{ranks_with(others, 'has', 'have')} waited for {ranks_in_words(works)}{inside} for"
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        waited = f"the job is starting: {ranks_with(fault.victims, 'waits', 'wait')} in rendezvous, for at most"
    one = either(tuple(works), "it hangs", "they hang")
    sure = f"that the others wait is shown, not that {one}: {either(tuple(works), 'it', 'they')} would be called hung"
    left = seconds_in_words(due.seconds - stall)
    remark = f"{sure} {due.why}, {left} from the last look on, and even then only as suspected"
    evidence = tuple(
        WorkEvidence(
            ranks=str(rank),
            text=f"rank {rank} {work.what}{_over(work)}",
            means=work.means,
            seconds=round(work.seconds, 2),
        )
        for rank, told in list(works.items())[:_MOST_EVIDENCE]
        for work in told
    )
    return replace(
        fault,
        kind=Kind.HELD_UP,
        culprits=tuple(rank for rank in fault.culprits if rank in works),
        said=f"{waited} {seconds_in_words(stall)}, and {_doing(works)}",
        evidence=(*evidence, *fault.evidence),
        remarks=(remark, *fault.remarks),
    )


def _over(work: Work) -> str:
    return f", over {work.seconds:.1f} s" if work.seconds else ""


def _doing(works: dict[int, tuple[Work, ...]]) -> str:
    """Say who does what."""
    some = list(works.items())[:_MOST_RANKS_TOLD]
    more = f"; {len(works) - len(some)} more are at work, too" if len(works) > len(some) else ""
    most = _MOST_TOLD if len(works) == 1 else 1
    return "; ".join(f"rank {rank} {_told(told[:most])}" for rank, told in some) + more


def _told(works: Sequence[Work]) -> str:
    return ", and ".join(work.what for work in works[:_MOST_TOLD])


def fair_to_workers(fault: Fault, observations: Observations) -> Fault:
    """Who works, or retries, after all that time may still be no hang: it is suspected at most, and the work is told.

    Of several that are waited for, who works is not to blame while others stand still.
    """
    if fault.kind not in _KINDS or fault.mismatch is not None or fault.lock is not None:
        return fault
    most = when_due(fault, observations, None).seconds
    works = {
        rank: told for rank in suspects_of(fault, observations) if (told := _in_time(observations.works(rank), most))
    }
    if not works:
        return fault
    remarks = (f"{ranks_with(works, 'was', 'were')} seen at work: {_doing(works)}", *fault.remarks)
    still = tuple(rank for rank in fault.culprits if rank not in works)
    if still:
        return replace(fault, culprits=still, remarks=remarks)
    return fault.resting_on(Support.AT_WORK, remarks=remarks)
