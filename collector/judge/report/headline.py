"""Step 10: the headline, one sentence for the whole; it says what is known and nothing more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from collector.align.observations import Observations
from collector.align.roster import Presence
from collector.align.stacks.activity import place
from collector.align.stacks.phases import ALLOWED_SECONDS, Phase
from collector.align.work.trails import Trail
from collector.judge.fault import first_edge
from collector.judge.report.restarts import restart_in_words
from collector.judge.report.sentences import say
from collector.judge.trails.in_words import trail_in_words
from collector.judge.unreachable_ranks import on_silent_nodes
from shared.answer.diagnosis import ChainLink, Finding
from shared.answer.words import Kind, Verdict
from shared.isolation import costs_itself
from shared.plural import counted, either
from shared.rank_sets import ranks_in_words


@dataclass(frozen=True)
class Interpretation:
    """What was read from the observations, before it is put into words."""

    verdict: Verdict
    reason: str
    state: Literal["running", "idle", "finished", "ended"] | None = None
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
    trails: tuple[Trail, ...] = ()
    """Where the waits of `waited_for` lead out of the job."""
    chain: tuple[ChainLink, ...] = ()
    """The same, with those who wait for them."""
    second_dump_after: int | None = None
    """Seconds after which a second dump of each rank would tell; None: that is not what is lacking."""


def reason(why: str, words: Mapping[str, object] | None = None) -> str:
    """Say why there is no verdict, by the row of that name."""
    known = {"why": why, **(words or {})}
    return say("reason", known)


def cannot_tell(why: str, words: Mapping[str, object] | None = None, **own: Any) -> Interpretation:
    """Return that nothing can be told, for such a reason."""
    return Interpretation(Verdict.CANNOT_TELL, reason(why, words), **own)


_PHASES = {
    Phase.CHECKPOINT: "saving or loading a checkpoint",
    Phase.COMPILE: "compiling",
    Phase.EVALUATION: "running the model for an evaluation",
    Phase.IMPORT: "importing modules",
    Phase.FIRST_STEP: "starting up",
    Phase.STORAGE: "reading data",
    Phase.DATA_SET: "preparing a data set",
}


_PREFIXES = {Verdict.HUNG: "Hung: ", Verdict.SLOW: "Slow: ", Verdict.DIED: "Died: "}


@costs_itself(lambda reading, observations: _plain(reading))
def headline_of(reading: Interpretation, observations: Observations) -> str:
    """One sentence a human can act on."""
    if reading.findings:
        first = reading.findings[0]
        more = len(reading.findings) - 1
        also = "" if not more else f" (and {counted(more, 'more finding')})"
        prefix = "Held up: " if first.kind is Kind.HELD_UP else _PREFIXES[reading.verdict]
        return f"{prefix}{first.summary}{also}"
    if reading.verdict is Verdict.NOT_HUNG:
        return f"Not hung: {reading.reason}."
    if reading.waited_for:
        yet = "" if reading.idle else " yet"
        return f"Cannot tell{yet}: {_waiting(reading, observations)}."
    return f"Cannot tell: {reading.reason}."


def _plain(reading: Interpretation) -> str:
    said = reading.findings[0].summary if reading.findings else reading.reason
    return f"{reading.verdict.replace('_', ' ').capitalize()}: {said}".removesuffix(": ")


def _waiting_for_work(ranks: tuple[int, ...], observations: Observations) -> str:
    """Who waits for work is idle, unless others wait for it in an operation on record: then work should come."""
    first = first_edge(edge for edge in observations.edges if {*ranks} & {*edge.holders})
    who, seen = ranks_in_words(ranks), observations.seen(ranks)
    told = next((each for each in seen if each.awaited is not None), None)
    waits = (
        f"{either(ranks, 'waits', 'wait')} for work" if told is None else f"{either(ranks, 'is', 'are')} {told.label}"
    )
    users = [each.user for each in ([told] if told is not None else seen) if each.user is not None]
    at = f" at {place(users[0])}" if users and (first is not None or told is not None) else ""
    if first is None:
        return f"others wait for {who}, which {waits}{at}: idle, or cut off from where it comes from"
    number = "" if first.sequence is None else f" #{first.sequence}"
    inside = f"others wait for {who} in {first.signature.op}{number}"
    return f"{inside}, and {either(ranks, 'it', 'they')} {waits}{at}: nothing shows who should end that wait"


def _waiting(reading: Interpretation, observations: Observations) -> str:
    who = ranks_in_words(reading.waited_for)
    if reading.sent is not None:
        return f"all ranks have been waiting in communication for {reading.stall:.1f} s, and {reading.sent}"
    if reading.idle:
        return _waiting_for_work(reading.waited_for, observations)
    if reading.trails:
        waits = trail_in_words(reading.trails[0], observations)
        return f"others have waited for {reading.stall:.1f} s for {who}; {waits}"
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
    at = f" on {on_silent_nodes(reading.waited_for, observations.roster)}" if silent else ""
    owed = next((each for each in observations.seen(reading.waited_for) if each.is_owed), None)
    if owed is not None:
        where = "" if owed.user is None else f" at {place(owed.user)}"
        return f"others have waited for {reading.stall:.1f} s for {who}, which is {owed.label}{where}{rhythm}"
    return f"others have waited for {who}{at} for {reading.stall:.1f} s{rhythm}"
