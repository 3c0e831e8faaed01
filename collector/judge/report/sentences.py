"""Step 10, last: the sentences. One for the whole, one per finding; each says what is known and nothing more."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.align.observations import Observations
from collector.align.roster import Presence, Roster
from collector.align.stacks.phases import ALLOWED_SECONDS, Phase
from collector.align.wait_states import WaitState
from collector.judge.fault import Fault
from collector.judge.records.compare_sequences import Mismatch, is_compared
from collector.judge.report.advice import advice_of_lines
from collector.judge.report.next_steps import about_job, record_next_time
from collector.judge.report.restarts import restart_in_words
from collector.judge.unreachable_ranks import on_silent_nodes
from shared.answer.diagnosis import Finding, NextStep
from shared.answer.words import Cause, Kind, Verdict
from shared.missing import Missing
from shared.plural import counted, either, ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.snapshot import Exited
from shared.wire.trace import Signature

_LOOK_AGAIN_SECONDS = 30
_MOST_SECONDS = 600
"""The longest pause or patience that is worth suggesting."""
_FOR_THE_LOOKS_SECONDS = 30
_MOST_EXITS = 6
"""Ways to end that are told: of a thousand ranks nearly all end alike."""


_MORE_FILES = (
    "add what other ranks left: flight-recorder dumps, stacks, or the logs of all ranks and of the launcher; "
    "if the job still hangs, take them now: `unhang diagnose` on its nodes"
)


@dataclass(frozen=True)
class Interpretation:
    """What was read from the observations, before it is put into words."""

    verdict: Verdict
    reason: str
    state: Literal["running", "idle", "finished"] | None = None
    findings: tuple[Finding, ...] = ()
    waited_for: tuple[int, ...] = ()
    """Whom the others wait for; all, where `reason` says what they wait in and nobody sets one apart."""
    stall: float = 0.0
    """Seconds that `waited_for` have been waited for, at least."""
    decided_after: float | None = None
    """Seconds of further standing still that would make it a hang."""
    unseen: tuple[int, ...] = ()
    """Ranks that others wait for and that nobody looked at."""
    sent: str | None = None
    """Data between those who wait that nobody has acknowledged yet; None: there is none."""
    idle: bool = False
    """Do `waited_for` look like a loop that waits for work?"""
    phase: Phase | None = None
    """What `waited_for` are at work on, if it may take a healthy job minutes."""


_PHASES = {
    Phase.CHECKPOINT: "saving or loading a checkpoint",
    Phase.COMPILE: "compiling",
    Phase.EVALUATION: "running the model for an evaluation",
    Phase.IMPORT: "importing modules",
    Phase.FIRST_STEP: "starting up",
    Phase.STORAGE: "reading data",
    Phase.DATA_SET: "preparing a data set",
}
_NOT_JOINED = ("has not joined", "have not joined")
_PREDICATES = {
    Kind.RANK_NOT_JOINED: _NOT_JOINED,
    Kind.RANK_EXITED: ("has exited and will never join", "have exited and will never join"),
    Kind.RANK_UNREACHABLE: ("is on {node} and may not have joined", "are on {node} and may not have joined"),
    Kind.RANK_STOPPED: ("is stopped by a signal and has not joined", "are stopped by a signal and have not joined"),
    Kind.RANK_MISSING: ("was not found anywhere and has not joined", "were not found anywhere and have not joined"),
}
"""What is said of one culprit, and of several."""


def headline_of(reading: Interpretation, observations: Observations) -> str:
    """One sentence a human can act on."""
    if reading.findings and reading.verdict is not Verdict.NOT_HUNG:
        first = reading.findings[0]
        more = len(reading.findings) - 1
        also = "" if not more else f" (and {counted(more, 'more finding')})"
        prefix = "Hung: " if reading.verdict is Verdict.HUNG else "Slow: "
        return f"{prefix}{first.summary}{also}"
    if reading.verdict is Verdict.NOT_HUNG:
        return f"Not hung: {reading.reason}."
    if reading.waited_for:
        yet = "" if reading.idle else " yet"
        return f"Cannot tell{yet}: {_waiting(reading, observations)}."
    return f"Cannot tell: {reading.reason}."


def ended_in_words(roster: Roster) -> str:
    """Say that all ranks have exited, and how, as far as anybody saw it."""
    how: dict[str, list[int]] = {}
    for view in roster.gone():
        how.setdefault(_exit_in_words(view.exited), []).append(view.rank)
    told = "; ".join(f"{ranks_in_words(ranks)} {text}" for text, ranks in list(how.items())[:_MOST_EXITS])
    more = f"; and {counted(len(how) - _MOST_EXITS, 'other way')}" if len(how) > _MOST_EXITS else ""
    return f"it has ended: {told}{more}"


def _exit_in_words(exited: Exited | None) -> str:
    if exited is None or (exited.exit_code is None and exited.signal is None):
        return "exited, and nobody saw how"
    if exited.oom_killed:
        return "OOM-killed"
    if exited.signal is not None:
        return f"killed by signal {exited.signal}"
    return f"exited with code {exited.exit_code}"


def _waiting(reading: Interpretation, observations: Observations) -> str:
    who = ranks_in_words(reading.waited_for)
    if reading.sent is not None:
        return f"all ranks have been waiting in communication for {reading.stall:.1f} s, and {reading.sent}"
    if reading.idle:
        waits = either(reading.waited_for, "waits", "wait")
        return f"others wait for {who}, which {waits} for work: idle, or cut off from where it comes from"
    usual = observations.motion.usual_gap_seconds
    rhythm = "" if usual is None else f"; the job's usual pauses last up to {usual:.1f} s"
    if reading.reason:
        again = restart_in_words(observations)
        return f"{reading.reason}; so far for {reading.stall:.1f} s{rhythm}{again and f'; {again}'}"
    if reading.phase is not None:
        phase = f"which {either(reading.waited_for, 'is', 'are')} {_PHASES[reading.phase]}"
        minutes = f"{ALLOWED_SECONDS[reading.phase] / 60:.0f} minutes"
        return f"others have waited for {reading.stall:.1f} s for {who}, {phase}; that may take {minutes}"
    silent = all(observations.roster.ranks[rank].presence is Presence.UNREACHABLE for rank in reading.waited_for)
    at = f" on {on_silent_nodes(reading.waited_for, observations)}" if silent else ""
    return f"others have waited for {who}{at} for {reading.stall:.1f} s{rhythm}"


def steps_to_know_more(reading: Interpretation, observations: Observations) -> tuple[NextStep, ...]:
    """What to do or switch on where no finding says it."""
    if reading.verdict is not Verdict.CANNOT_TELL:
        seems = "if it seems to stand still nevertheless, look again, with more time between the looks"
        return (_further_apart(seems, observations),) if observations.roster.live and reading.state == "running" else ()
    steps = [_where_to_look(reading.unseen, observations) if reading.unseen else _again(reading, observations)]
    steps = [*_unread_in_c(observations), *steps, *advice_of_lines(observations)]
    if not observations.traces:
        steps += record_next_time(observations)
    return tuple(steps)


def _unread_in_c(observations: Observations) -> Iterator[NextStep]:
    """Whoever may wait in C for other ranks, and why nobody could read what for; the reason says what to do."""
    for view in observations.roster.present():
        missing = [look.stacks for look in view.looks if isinstance(look.stacks, Missing)]
        if missing and view.stacks is not None and observations.state(view.rank) is WaitState.UNKNOWN:
            yield NextStep(text=f"rank {view.rank} may wait for others in C: {missing[-1].detail}")
            return


def _where_to_look(ranks: Sequence[int], observations: Observations) -> NextStep:
    who, job = ranks_in_words(ranks), observations.roster.job
    if observations.roster.live:
        text = f"examine {who}, too: ask a collector, or all nodes of the job over ssh"
        return about_job(text, "unhang", "diagnose", "--ssh", "--hosts", "NODES", job=job)
    text = f"examine {who}, too: add {either(ranks, 'its', 'their')} dumps, stacks or logs to the directory"
    return about_job(text, "unhang", "diagnose", job=job)


def waiting_for(waiters: Sequence[int], others: Sequence[int]) -> str:
    """Say who waits for whom."""
    return f"{ranks_with(waiters, 'waits', 'wait')} for {ranks_in_words(others)}"


def _again(reading: Interpretation, observations: Observations) -> NextStep:
    """The next question, with looks as far apart as it takes to decide: without a record the count starts again."""
    if not observations.roster.live:
        return about_job(_MORE_FILES, "unhang", "diagnose", job=observations.roster.job)
    left = reading.decided_after
    if left is None:
        return _further_apart("look again, with more time between the looks", observations)
    patience = min(_MOST_SECONDS, math.ceil(left + reading.stall) + 1)
    text = "give it longer: only time tells slow from stuck"
    return about_job(text, "unhang", "diagnose", "--patience", str(patience), job=observations.roster.job)


def _further_apart(text: str, observations: Observations) -> NextStep:
    apart = ("--interval", str(_LOOK_AGAIN_SECONDS), "--timeout", str(_LOOK_AGAIN_SECONDS + _FOR_THE_LOOKS_SECONDS))
    return about_job(text, "unhang", "diagnose", *apart, job=observations.roster.job)


def summary_of(fault: Fault, cause: Cause, observations: Observations) -> str:
    """The finding in one sentence."""
    if fault.said:
        return fault.said
    at = _operation(fault)
    if fault.kind is Kind.STRAGGLER:
        return f"rank {fault.culprits[0]} keeps the others waiting in every step{_where(fault, cause, observations)}"
    if fault.kind is Kind.COLLECTIVE_MISMATCH:
        return _mismatch(fault, at)
    if fault.kind is Kind.P2P_DEADLOCK:
        who = ranks_in_words(fault.culprits or sorted({edge.waiter for edge in fault.cycle}))
        return f"{who} wait for each other in point-to-point operations: a deadlock"
    if fault.kind is Kind.ORDER_INVERSION:
        return _inversion(fault, at)
    if fault.kind is Kind.STUCK_TOGETHER:
        return _stuck(fault, at)
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        return _not_started(fault, observations)
    if fault.kind is Kind.P2P_UNMATCHED and not fault.culprits:
        return fault.remarks[0]
    if fault.kind is Kind.P2P_UNMATCHED:
        who, operation = ranks_in_words(fault.culprits), at or " a point-to-point operation"
        return f"{who} never posts the counterpart of{operation}{_where(fault, cause, observations)}"
    return _not_joined(fault, cause, observations, at)


def _not_started(fault: Fault, observations: Observations) -> str:
    waits = f"{ranks_with(fault.victims, 'waits', 'wait')} in rendezvous"
    if fault.culprits:
        return f"the job does not start: {ranks_in_words(fault.culprits)} never arrived; {waits}"
    if len(fault.victims) == observations.roster.world_size:
        return f"the job does not start: {waits}, though all ranks of the job are there"
    return f"the job does not start: not all ranks arrived; {waits}"


def _operation(fault: Fault) -> str:
    if fault.op is None:
        return ""
    number = "" if fault.sequence is None else f" #{fault.sequence}"
    if fault.group is None:
        return f" {fault.op}{number}"
    named = fault.group.ref.description or fault.group.ref.name
    label = fault.group.ref.name if named == "undefined" else named
    return f" {fault.op}{number} of group {label}"


def _not_joined(fault: Fault, cause: Cause, observations: Observations, at: str) -> str:
    inside = f" in{at}" if at else ""
    if not fault.culprits:
        return f"{ranks_with(fault.victims, 'waits', 'wait')}{inside}, and the other ranks are not in communication"
    them = either(fault.culprits, "it", "them")
    if fault.kind is Kind.RANK_MISSING and not observations.roster.live and fault.victims:
        waits = f"{ranks_with(fault.victims, 'waits', 'wait')} for {them}{inside}"
        return f"{ranks_in_words(fault.culprits)} left no dump, and {waits}: look there first"
    said = ranks_with(fault.culprits, *_PREDICATES.get(fault.kind, _NOT_JOINED))
    said = said.format(node=on_silent_nodes(fault.culprits, observations))
    victims = f"; {ranks_with(fault.victims, 'waits', 'wait')} for {them}" if fault.victims else ""
    return f"{said}{at or ' the others'}{_where(fault, cause, observations)}{victims}"


def _stuck(fault: Fault, at: str) -> str:
    who = ranks_in_words(fault.victims)
    if fault.culprits:
        late = ranks_in_words(fault.culprits)
        that = either(fault.culprits, "that", "those")
        return f"all ranks have issued{at}; it has started on the devices of {who}, but not on {that} of {late}"
    if fault.group is None:
        inside = f" in{at}" if at else " in communication"
        return f"{ranks_with(fault.victims, 'waits', 'all wait')}{inside}, and stacks alone do not show for whom"
    match = "; recorded arguments match" if fault.op is None or is_compared(fault.op) else ""
    stuck = ranks_with(fault.victims, "is stuck", "are stuck")
    return f"{stuck} in{at or ' communication'}: all ranks entered it, not all completed it{match}"


def _mismatch(fault: Fault, at: str) -> str:
    who = ranks_in_words(fault.culprits) if fault.culprits else ""
    if fault.mismatch is None:
        return f"{ranks_with(fault.culprits, 'is', 'are')} alone in{at or ' another collective'}"
    sides = fault.mismatch.sides
    if not who:
        alike = len({signature.op for _, signature in sides}) == 1
        called = [(ranks_in_words(ranks), _call(signature) if alike else signature.op) for ranks, signature in sides]
        named = " vs. ".join(f"{ranks} ({call})" for ranks, call in called)
        tied = ", and no side has a majority" if len(sides) > 1 else ""
        return f"the ranks disagree on{at}: {named}{tied}"
    wrong = next(signature for ranks, signature in sides if set(ranks) & set(fault.culprits))
    what = wrong.op if wrong.op != sides[0][1].op else f"{wrong.op} with different sizes or types"
    return f"{who} issued {what} where {ranks_in_words(sides[0][0])} issued{at}"


def settled_in_words(mismatch: Mismatch) -> str:
    """Say on what the ranks disagreed in an operation that all of them have completed."""
    sides = " vs. ".join(f"{ranks_in_words(ranks)} ({_call(signature)})" for ranks, signature in mismatch.sides[:4])
    named = mismatch.group.ref.description or mismatch.group.ref.name
    return f"the ranks disagreed on operation #{mismatch.sequence} of group {named}, which all completed: {sides}"


def _call(signature: Signature) -> str:
    sizes = " ".join("[" + ",".join(map(str, size)) + "]" for size in signature.input_sizes[:4])
    types = "/".join(dict.fromkeys((*signature.input_dtypes, *signature.output_dtypes)))
    return " ".join(part for part in (signature.op, sizes, types and f"of type {types}") if part)


def _inversion(fault: Fault, at: str) -> str:
    if not fault.culprits:
        who = ranks_in_words(sorted({edge.waiter for edge in fault.cycle}))
        return f"{who} wait for each other across groups: they issued operations in different orders"
    who = ranks_in_words(fault.culprits)
    return f"{who} issued the groups' operations in a different order from the others, which wait in{at}"


def _where(fault: Fault, cause: Cause, observations: Observations) -> str:
    seen = next(iter(observations.seen(fault.culprits)), None)
    if seen is None or not seen.frames:
        return "" if cause is Cause.UNKNOWN else f" ({cause.value})"
    at = f" at {seen.user}" if seen.user is not None else ""
    return f": it is {seen.label}{at}" if len(fault.culprits) == 1 else f": {seen.label}{at}"
