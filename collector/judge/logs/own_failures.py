"""What ranks log of their own failures: an exception, memory run out, a device error, before they waited for anybody.

Whoever loses its peers raises exceptions, too: those that speak of communication are echoes, and what a rank logs after
it waited in vain is a consequence. Only a minority can be the reason for which the others wait.
"""

import re

from collector.align.logs.attributed_lines import Statements, is_last_word_of, is_wait
from collector.align.observations import Observations
from collector.judge.fault import kind_of
from collector.judge.logs.vote import Opinion, Witness, is_are, line_of
from shared.answer.diagnosis import LogEvidence
from shared.answer.words import Cause, Kind
from shared.ranks import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

# torch.distributed.DistBackendError: NCCL error in: …        RuntimeError: [… gloo/transport/tcp/pair.cc:553] …
# torch.distributed.elastic.multiprocessing.errors.ChildFailedError:        RuntimeError: DDP expects same model …
_ECHO = re.compile(
    r"Dist(?:Backend|Network|Store)?Error|ChildFailedError|SignalException|KeyboardInterrupt|SystemExit"
    r"|monitoredBarrier|gloo/|NCCL|RCCL|Detected mismatch between collectives|[Tt]imed out|[Tt]imeout"
    r"|[Cc]onnection (?:closed|reset|refused)|Broken pipe|failed to recv|DDP expects same model|process group|peer"
)
_CAUSES = {
    EventKind.EXCEPTION: Cause.EXCEPTION,
    EventKind.OUT_OF_MEMORY: Cause.OOM,
    EventKind.DEVICE_ERROR: Cause.GPU_FAULT,
    EventKind.SIGNAL: Cause.SIGNAL,
}


def opinions_by_own_words(heard: Statements, scene: Observations) -> list[Opinion]:
    """Return who failed by its own word while others waited; empty where that is most of those who speak."""
    if not any(True for _ in heard.of_kind(*_CAUSES)):
        return []
    failed = {
        rank: event
        for rank, events in heard.by_rank.items()
        if (event := _first_failure(events)) is not None and is_last_word_of(event, scene.roster.ranks[rank])
    }
    waiting = tuple(sorted(heard.waited - failed.keys()))
    if not failed or len(failed) > len(waiting):
        return []
    culprits = tuple(sorted(failed))
    kinds = {kind_of(rank, scene) for rank in culprits} if scene.roster.live else {Kind.RANK_NOT_JOINED}
    causes = {_cause(event) for event in failed.values()}
    cause = causes.pop() if len(causes) == 1 else Cause.UNKNOWN
    return [
        Opinion(
            witness=Witness.OWN_WORD,
            kind=kinds.pop() if len(kinds) == 1 else Kind.RANK_NOT_JOINED,
            culprits=culprits,
            victims=waiting,
            said=f"{ranks_in_words(culprits)} failed ({cause.value}), and {ranks_in_words(waiting)} waited in vain",
            ground=tuple(line_of(event, rank) for rank, event in sorted(failed.items()))
            + tuple(_wait_line(rank, heard) for rank in waiting[:1]),
            cause=cause,
            remarks=(f"{is_are(culprits)} named by what was logged before any wait; times are not compared",),
        )
    ]


def _wait_line(rank: int, heard: Statements) -> LogEvidence:
    return line_of(next(event for event in heard.by_rank[rank] if is_wait(event)), rank)


def _first_failure(events: tuple[LogEvent, ...]) -> LogEvent | None:
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


def _cause(event: LogEvent) -> Cause:
    return Cause.OOM if "out of memory" in event.text.lower() else _CAUSES[event.kind]
