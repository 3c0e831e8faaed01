"""Whose lines count: every rank's log events, less those of an earlier time.

A live job has a past. A line counts only if its process can have written it, and has not long gone on since: a
timeout that was survived accuses nobody now. What no rank owns is given to the process that its header names.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from collector.align.roster import RankView, Roster
from collector.align.thresholds import INCIDENT_SECONDS
from shared.isolation import costs_itself
from shared.wire.log_events import VOICES, EventKind, LogEvent, LogFile, Logs, is_last_word
from shared.wire.nccl_calls import LoggedCommunicator

_MARK = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_RANK = re.compile(r"[0-9]{1,7}")
_NUMBERS = {
    **dict.fromkeys(("sequence", "numel_in", "numel_out", "joined", "expected", "not_joined", "unfinished"), _NUMBER),
    **dict.fromkeys(("group_id", "elapsed_ms", "timeout_ms", "waited_ms", "received_bytes", "expected_bytes"), _NUMBER),
    **dict.fromkeys(("rank", "other_rank", "group_rank", "local_rank", "waiter", "speaker", "near", "differs"), _RANK),
    **dict.fromkeys(("failed_rank", "ended_rank"), _RANK),
    **dict.fromkeys(("enqueued", "completed"), _MARK),
    "awaited": _NUMBER,
}
"""Fields that are read as numbers. A snapshot may have been written by anybody."""


@dataclass(frozen=True)
class Statements:
    """All that counts, in the order of ranks and lines."""

    by_rank: dict[int, tuple[LogEvent, ...]]
    unowned: tuple[LogEvent, ...]
    communicators: tuple[LoggedCommunicator, ...]
    voices: tuple[tuple[int | None, LogEvent], ...] = ()
    """Waits in words that no row knows, with their ranks: they are told, and nothing rests on them."""

    def all(self) -> Iterator[tuple[int | None, LogEvent]]:
        """Yield every event with the rank that wrote it, if that is known."""
        for rank, events in self.by_rank.items():
            for event in events:
                yield rank, event
        for event in self.unowned:
            yield None, event

    def of_kind(self, *kinds: EventKind) -> Iterator[tuple[int | None, LogEvent]]:
        told = (said for kind in kinds for said in self._by_kind.get(kind, ()))
        return ((rank, event) for _, rank, event in sorted(told, key=itemgetter(0)))

    @cached_property
    def _by_kind(self) -> dict[EventKind, list[tuple[int, int | None, LogEvent]]]:
        """Events with their writers, and their place among all: a large job says much that no question is about."""
        found: dict[EventKind, list[tuple[int, int | None, LogEvent]]] = defaultdict(list)
        for place, (rank, event) in enumerate(self.all()):
            found[event.kind].append((place, rank, event))
        return found

    @cached_property
    def waited(self) -> frozenset[int]:
        """Ranks that say themselves that they waited for others, and in vain."""
        return frozenset(rank for rank, events in self.by_rank.items() if any(map(is_wait, events)))


_APART = VOICES | {EventKind.INTERFACE}
NOTHING_HEARD = Statements({}, (), ())


def is_wait(event: LogEvent) -> bool:
    """Does a line say that its writer waited for other ranks, or lost them?"""
    fields = event.fields
    if event.kind is EventKind.WATCHDOG_TIMEOUT:
        return "sequence" in fields
    if event.kind is EventKind.TRANSPORT_ERROR:
        return "local_rank" not in fields
    if event.kind is EventKind.RENDEZVOUS:
        return "imed out" in event.text or "wait timeout" in event.text or ("waiter" in fields and "peer" in fields)
    return event.kind is EventKind.BARRIER_FAILED


@costs_itself(lambda roster, **_: NOTHING_HEARD, part="log lines")
def hear(roster: Roster, *, of: EventKind | None = None) -> Statements:
    """Return what counts of everything that was logged, but for what accuses nobody, or lines of one kind alone.

    The interfaces that NCCL took are nearly all lines of a large job.
    """
    every = roster.ranks
    by_rank = {rank: _counting(_wanted(view.logged, of), [view], roster) for rank, view in every.items()}
    left = []
    shared = _wanted(roster.unowned, of)
    processes = _processes(roster) if roster.unowned else {}
    for event in shared:
        owner = _owner(event, processes)
        if owner is None:
            left.append(event)
        else:
            by_rank[owner] += _counting([event], [every[owner]], roster)
    unowned = _counting(left, every.values(), roster)
    statements = {rank: tuple(events) for rank, events in by_rank.items() if events}
    called = (each for each in roster.communicators if each.rank is None or each.rank in roster.ranks)
    counted = tuple(each for each in called if each.size > 0 and (each.comm_rank or 0) >= 0)
    said = (*(event for view in every.values() for event in view.logged), *roster.unowned)
    voices = tuple((_owner(event, processes), event) for event in said if event.kind in VOICES)
    return Statements(statements, tuple(unowned), counted, voices)


def _owner(event: LogEvent, processes: Mapping[tuple[str, str], int]) -> int | None:
    name = event.fields.get("writer_host", ""), event.fields.get("writer_pid", "")
    return event.rank if event.rank is not None else processes.get(name)


def _processes(roster: Roster) -> dict[tuple[str, str], int]:
    """Which rank a process is, by what the agents saw and by what NCCL logs of itself."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for rank, view in roster.ranks.items():
        if view.identity is not None and view.identity.pid is not None and view.identity.host:
            found[view.identity.host, str(view.identity.pid)].add(rank)
    for each in roster.communicators:
        if each.rank is not None:
            found[each.host, str(each.pid)].add(each.rank)
    known = roster.ranks.keys()
    return {process: ranks.pop() for process, ranks in found.items() if len(ranks) == 1 and ranks <= known}


def _wanted(events: Sequence[LogEvent], of: EventKind | None) -> list[LogEvent]:
    return [event for event in events if (event.kind not in _APART if of is None else event.kind is of)]


def _counting(events: Sequence[LogEvent], writers: Collection[RankView], roster: Roster) -> list[LogEvent]:
    """Return those of the events that count, each of which one of `writers` has written."""
    readable = [event for event in events if _is_readable(event)]
    if not readable or not roster.live:
        return readable
    identities = [view.identity for view in writers if view.identity is not None]
    begun = min((each.started_at for each in identities if each.started_at is not None), default=0.0)
    again = any(each.attempt for each in identities)
    files = _files(writers)
    return [event for event in readable if _is_of_now(event, files.get(event.path, []), begun=begun, again=again)]


def _is_readable(event: LogEvent) -> bool:
    return all(_NUMBERS[name].fullmatch(event.fields[name]) for name in _NUMBERS.keys() & event.fields.keys())


def _is_of_now(event: LogEvent, files: Iterable[LogFile], *, begun: float, again: bool) -> bool:
    """Is a line, in one of `files`, of a process that began then, in Unix seconds, and has not long gone on since?

    `again`: were such processes started anew? Then a line that tells no time may be of those before them.
    """
    if event.at is None:
        return not again and is_last_word(event, files)
    written = max((file.modified_at for file in files if file.modified_at is not None), default=None)
    return event.at >= begun - 1.0 and (written is None or written - event.at <= INCIDENT_SECONDS)


def _files(writers: Iterable[RankView]) -> dict[str, list[LogFile]]:
    """Return the files that some ranks write, by path: one for each look."""
    found: dict[str, list[LogFile]] = {}
    for view in writers:
        for look in view.looks:
            for file in look.logs.files if isinstance(look.logs, Logs) else ():
                found.setdefault(file.path, []).append(file)
    return found


def is_last_word_of(event: LogEvent, view: RankView) -> bool:
    """Has the process that wrote a line not gone on since, as far as its files tell?"""
    return is_last_word(event, _files([view]).get(event.path, []))
