"""What clients wait for, of a job that serves: asked where no rank is seen waiting for another.

1. Nobody waits, and all processes wait for work: the server is idle.
2. A request has waited for long, and of the processes above the ranks and the ranks themselves one neither waits for
   work or for the others, nor moves: it holds the request up. So does one that is stopped or frozen. Of several engines
   each answers for its own requests alone, with the ranks that it has started.
3. One moves: it is at work for the request, as far as anybody can tell.
4. All wait for work: the request is lost, or it is a long poll, which waits by design. Nobody can tell which.

Requests alone accuse nobody, and a place alone does not: a helper may rightly sleep, and a client rightly wait.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import HELD
from collector.align.stacks.activity import Activity, place
from collector.align.thresholds import BUSY_SECONDS, FROZEN_SECONDS, UNANSWERED_SECONDS
from collector.align.wait_states import WaitState
from collector.align.work.children import named
from collector.align.work.servers import Family
from collector.judge.fault_rows import fault_by
from collector.judge.report.findings import finding_of, rfc3339
from collector.judge.report.headline import Interpretation
from shared.answer.diagnosis import Evidence, FdEvidence, NextStep, ProcessEvidence, StackEvidence
from shared.answer.words import Verdict
from shared.isolation import costs_itself
from shared.plural import counted, either
from shared.wire.snapshot import Process


@dataclass(frozen=True)
class _Holder:
    """A process that may hold requests up."""

    activity: Activity
    motion: Motion
    is_held: bool
    waits: bool
    """Does it wait for work, or for the others?"""
    elsewhere: bool
    """Is it known to be in no such wait? What a rank calls in C, and nobody has read, may be one."""
    process: Process | None
    host: str | None
    rank: int | None = None

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        own = "a process" if self.process is None else f"process {named(self.process)}"
        return own if self.rank is None else f"rank {self.rank}"

    @property
    def stands(self) -> bool:
        """Does it neither wait for work nor move, where its stack or state was read?"""
        return self.is_held or (self.elsewhere and bool(self.activity.frames) and self.motion is Motion.FROZEN)

    @property
    def needed_seconds(self) -> float:
        """For how long a request must have waited."""
        if self.is_held:
            return FROZEN_SECONDS
        return BUSY_SECONDS if self.activity.may_pass else UNANSWERED_SECONDS

    @property
    def at(self) -> str:
        """Where it stands."""
        frame = self.activity.user or (self.activity.frames[-1] if self.activity.frames else None)
        return "" if frame is None else f" at {place(frame)}"


@costs_itself(lambda observations: None)
def by_requests(observations: Observations) -> Interpretation | None:
    """Return what those who wait for the job tell of it; None: no server is seen, or it tells nothing."""
    waited = [each.waited_seconds for each in observations.families]
    count = sum(each.waiting for each in observations.families)
    if not waited:
        return None
    held = [found for each in observations.families if (found := _held_up_by(each, observations)) is not None]  # 2
    if held:
        return next((each for each in held if each.verdict is Verdict.HUNG), held[0])
    holders = [*(each for family in observations.families for each in _above(family)), *_ranks(observations)]
    if any(each.motion is Motion.BUSY and not each.waits for each in holders):
        return None  # 3
    if not all(each.waits for each in holders):
        return None
    if max(waited) < FROZEN_SECONDS:  # 1
        asked = "no request waits for an answer" if not count else "no request has waited for long"
        return Interpretation(Verdict.NOT_HUNG, f"the server is idle: {asked}", state="idle")
    reason = f"{_waiting(count, max(waited))}, and all processes of the server wait for work"  # 4
    left = UNANSWERED_SECONDS - max(waited)
    if left > 0:
        return Interpretation(Verdict.CANNOT_TELL, reason, state="idle", decided_after=left)
    return Interpretation(Verdict.CANNOT_TELL, f"{reason}: the client polls, or what it sent is lost", state="idle")


def _held_up_by(family: Family, observations: Observations) -> Interpretation | None:
    standing = [each for each in (*_above(family), *_below(family, observations)) if each.stands]
    if not standing or not family.waiting:
        return None
    return _held_up(min(standing, key=_most_telling), family, observations)


def _above(family: Family) -> Iterator[_Holder]:
    for each in family.servers:
        yield _Holder(each.activity, each.motion, each.is_held, each.waits, not each.waits, each.process, family.host)


def _below(family: Family, observations: Observations) -> Iterator[_Holder]:
    """The ranks that a family has started; of one alone all, for they may be on other nodes."""
    pids = {server.process.pid for server in family.servers}
    for each in _ranks(observations):
        started = each.process is not None and each.host == family.host and each.process.parent_pid in pids
        if len(observations.families) == 1 or each.rank == family.rank or started:
            yield each


def _ranks(observations: Observations) -> Iterator[_Holder]:
    for view in observations.roster.present():
        seen = observations.activities[view.rank]
        held = view.presence in HELD
        waits = not held and (seen.waits_for_others or observations.may_wait(view.rank))
        elsewhere = not waits and observations.state(view.rank) is WaitState.ELSEWHERE
        motion = observations.motion.by_rank.get(view.rank, Motion.UNKNOWN)
        yield _Holder(seen, motion, held, waits, elsewhere, view.process, view.host, view.rank)


def _most_telling(holder: _Holder) -> tuple[bool, bool, int]:
    """Of several one that is held comes first, then a rank; of processes above these the nearest."""
    return not holder.is_held, holder.rank is None, holder.rank or 0


def _waiting(count: int, seconds: float) -> str:
    return (
        f"{counted(count, 'request')} {either(range(count), 'waits', 'wait')} for an answer, for up to {seconds:.0f} s"
    )


def _held_up(holder: _Holder, family: Family, observations: Observations) -> Interpretation:
    """2."""
    waited = family.waited_seconds
    left = holder.needed_seconds - waited
    does = f"{holder.name} is {holder.activity.label}{holder.at}"
    said = f"{does}, and {_waiting(family.waiting, waited)}"
    if left > 0:
        return Interpretation(Verdict.CANNOT_TELL, said, stall=waited, decided_after=left)
    shown: list[Evidence] = [_of_connections(family)]
    own: dict[str, Any] = {}
    if holder.rank is None:
        shown += _evidence(holder)
        own = {"where": holder.activity.where}
    if holder.rank is None or holder.is_held:
        own["steps"] = tuple(_steps(holder))
    own |= {"cause": holder.activity.cause, "said": said, "evidence": tuple(shown)}
    culprits = () if holder.rank is None else (holder.rank,)
    fault = fault_by("held_requests" if holder.is_held else "requests", culprits, (), **own)
    last = observations.roster.last_look_ns
    since = None if last is None else rfc3339(last - int(waited * 1e9))
    finding = finding_of(fault, observations)
    told = finding.model_copy(update={"since": since, "lasted_seconds": round(waited, 1)})
    return Interpretation(Verdict.HUNG, "", findings=(told,))


def _steps(holder: _Holder) -> Iterable[NextStep]:
    on = "" if holder.host is None else f" on {holder.host}"
    process = holder.process
    if process is None:
        return
    if process.frozen_by is not None:
        yield NextStep(text=f"thaw its cgroup{on}: {process.frozen_by}", frees=True)
    elif holder.is_held:
        yield NextStep(text=f"resume {holder.name}{on}", command=f"kill -CONT {process.pid}", frees=True)
    else:
        text = f"keep the native stacks of {holder.name}{on} before it is restarted: reading them stops it for a second"
        yield NextStep(text=text, command=f"py-spy dump --native --pid {process.pid}")


def _of_connections(family: Family) -> FdEvidence:
    """What the clients' connections show."""
    spoke, new = family.requests.unanswered, family.requests.unaccepted
    last = f"{counted(spoke, 'connection')} of clients in which these have spoken last"
    return FdEvidence(ranks="", text=last if not new else f"{last}, and {new} that no process has accepted")


def _evidence(holder: _Holder) -> Iterable[StackEvidence | ProcessEvidence]:
    """Lay out what shows it."""
    seen, process = holder.activity, holder.process
    if seen.frames:
        frames = tuple(map(place, seen.frames))
        yield StackEvidence(ranks="", text=f"{holder.name} is {seen.label}", thread=seen.thread, frames=frames)
    if process is not None:
        text = f"{holder.name}: {seen.process}"
        yield ProcessEvidence(ranks="", text=text, host=holder.host, pid=process.pid, state=process.state)
