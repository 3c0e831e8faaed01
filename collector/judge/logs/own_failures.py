"""What ranks log of their own failures: an exception, memory run out, a device error, before they waited for anybody.

Whoever loses its peers raises exceptions, too: those that speak of communication are echoes, and what a rank logs after
it waited in vain is a consequence. Only a minority can be the reason for which the others wait.
"""

import re

from collector.align.logs.aftermath import Aftermath
from collector.align.logs.attributed_lines import Statements, is_last_word_of, is_wait
from collector.align.marks.reports import numbers_in
from collector.align.observations import Observations
from collector.judge.fault import kind_of
from collector.judge.logs.vote import Opinion, line_of, opinion_by, with_field
from shared.answer.diagnosis import LogEvidence
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.wire.log_events import EventKind, LogEvent

# torch.distributed.DistBackendError: NCCL error in: …        RuntimeError: [… gloo/transport/tcp/pair.cc:553] …
# torch.distributed.elastic.multiprocessing.errors.ChildFailedError:        RuntimeError: DDP expects same model …
_ECHO = re.compile(
    r"Dist(?:Backend|Network|Store)?Error|ChildFailedError|SignalException|KeyboardInterrupt|SystemExit"
    r"|monitoredBarrier|gloo/|NCCL|RCCL|Detected mismatch between collectives|[Tt]imed out|[Tt]imeout"
    r"|[Cc]onnection (?:closed|reset|refused)|Broken pipe|failed to recv|DDP expects same model|process group|peer"
    r"|other ranks that didn't finish"
)
_CAUSES = {
    EventKind.EXCEPTION: Cause.EXCEPTION,
    EventKind.OUT_OF_MEMORY: Cause.OOM,
    EventKind.DEVICE_ERROR: Cause.GPU_FAULT,
    EventKind.SIGNAL: Cause.SIGNAL,
}
# CUDA error: an illegal memory access was encountered        CUDA error: device-side assert triggered
_REPORTED_LATER = re.compile(
    r"illegal (?:memory access|address|instruction)|device-side assert|misaligned address|unspecified launch failure"
    r"|Memory access fault|HSA_STATUS_ERROR"
)
# Cuda failure 101 'invalid device ordinal'        CUDA error: invalid configuration argument
_OF_THE_PROGRAM = re.compile(_REPORTED_LATER.pattern + r"|invalid|not permitted|not supported|no kernel image")
_LOST = re.compile(
    r"[Cc]onnection (?:was likely )?(?:closed|reset|refused)|Broken pipe|got 0 bytes|emote process exited"
)
_STORAGE = re.compile(r"No space left on device|\[Errno (?:5|28|30|95|116|121|122)\]")
"""EIO, ENOSPC, EROFS, EOPNOTSUPP, ESTALE, EREMOTEIO, EDQUOT."""


@costs_itself(lambda *_: [])
def opinions_by_own_words(statements: Statements, observations: Observations, aftermath: Aftermath) -> list[Opinion]:
    """Return who failed by its own word while others waited; empty where that is most of those who speak.

    What fails once somebody has waited in vain is a consequence: whoever gives up aborts what its peers are in.
    """
    if not any(True for _ in statements.of_kind(*_CAUSES)):
        return []
    failed = {
        rank: event
        for rank, events in statements.by_rank.items()
        if (event := first_failure(events)) is not None
        and is_last_word_of(event, observations.roster.ranks[rank])
        and not aftermath.holds(event)
    }
    waiting = tuple(sorted(statements.waited - failed.keys()))
    first = {} if waiting else _first_to_end(statements)
    if not failed or (len(failed) > len(waiting) and failed.keys() != first.keys()):
        return []
    culprits = tuple(sorted(failed))
    ended = Kind.RANK_EXITED if first or has_lost_peers(statements) else Kind.RANK_NOT_JOINED
    kinds = {kind_of(rank, observations) for rank in culprits} if observations.roster.live else {ended}
    causes = {cause_of_failure(event) for event in failed.values()}
    cause = causes.pop() if len(causes) == 1 else Cause.UNKNOWN
    shown = (
        *(line_of(event, rank) for rank, event in sorted(failed.items())),
        *(_wait_line(rank, statements) for rank in waiting[:1]),
        *(line_of(event, None, culprits) for event in first.values()),
    )
    words = {"why": cause.value} | ({"launched": ""} if first else {})
    remarks = dict.fromkeys(remark for event in failed.values() for remark in remarks_on(event))
    kind = kinds.pop() if len(kinds) == 1 else Kind.RANK_NOT_JOINED
    return [opinion_by("own", culprits, waiting, words, *remarks, kind=kind, cause=cause, evidence=shown)]


def _first_to_end(statements: Statements) -> dict[int, LogEvent]:
    """The rank that a launcher saw end first; by its local number nobody is told."""
    seen = with_field(statements.of_kind(EventKind.SIGNAL), "first_to_end")
    named = ((numbers_in(event.fields["first_to_end"]), event) for _, event in seen if "horovodrun" not in event.fields)
    ranks = {rank: event for told, event in named for rank in told}
    return ranks if len(ranks) == 1 else {}


def has_lost_peers(statements: Statements) -> bool:
    """Did connections end, as they do when the process at their other end does?"""
    told = statements.of_kind(EventKind.TRANSPORT_ERROR, EventKind.RENDEZVOUS, EventKind.EXCEPTION)
    return any(_LOST.search(event.text) for _, event in told)


def _wait_line(rank: int, statements: Statements) -> LogEvidence:
    return line_of(next(event for event in statements.by_rank[rank] if is_wait(event)), rank)


def first_failure(events: tuple[LogEvent, ...]) -> LogEvent | None:
    """The rank's own failure, if one stands before all waits. Who waited later had survived it, as who wrote on."""
    first = next((event for event in events if is_wait(event) or is_own_failure(event)), None)
    if first is None or is_wait(first) or any(_is_later_wait(event) for event in events):
        return None
    return first


def _is_later_wait(event: LogEvent) -> bool:
    """Is it a wait for others, rather than a connection that a rank loses while it ends?"""
    return is_wait(event) and (event.kind is not EventKind.TRANSPORT_ERROR or "timeout_ms" in event.fields)


def is_own_failure(event: LogEvent) -> bool:
    """Does a line tell of a failure that needs no other rank to happen?"""
    if event.kind is EventKind.SIGNAL:
        return "what" in event.fields and "Fatal Python error" in event.text
    if event.kind is EventKind.EXCEPTION:
        return _ECHO.search(event.text) is None
    return event.kind in (EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR)


def cause_of_failure(event: LogEvent) -> Cause:
    """Return why a process failed. What its program asks of the device wrongly is no fault of the device."""
    if "out of memory" in event.text.lower():
        return Cause.OOM
    if event.fields.keys() & {"died", "first_to_end"}:
        return Cause.UNKNOWN
    if "DataLoader worker (pid" in event.text:
        return Cause.DATALOADER
    if event.kind is EventKind.DEVICE_ERROR and _OF_THE_PROGRAM.search(event.fields.get("what", "")):
        return Cause.USER_CODE
    if event.kind is EventKind.EXCEPTION and _STORAGE.search(event.text):
        return Cause.FILESYSTEM
    return _CAUSES[event.kind]


def remarks_on(event: LogEvent) -> tuple[str, ...]:
    """Return what helps to read a failure."""
    if event.kind is EventKind.DEVICE_ERROR and _REPORTED_LATER.search(event.fields.get("what", "")):
        return ("such an error is reported later than it happens: CUDA_LAUNCH_BLOCKING=1 shows the call that made it",)
    return ()
