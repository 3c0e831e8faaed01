"""Whose words are heard: every rank's log events, less those of an earlier time.

A live job has a past. A line counts only if its process can have written it, and has not long gone on since: a
timeout that was survived accuses nobody now. What no rank owns is given to the process that its header names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from collector.diagnose.roster import RankView, Roster
from shared.log_events import EventKind, LogEvent, Logs, is_last_word
from shared.nccl_calls import LoggedCommunicator

_SURVIVED_SECONDS = 900.0
"""A log still written to so long after a timeout is of a job that went on; torch's own monitor ends it sooner."""
_MARK = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBERS = (
    *("sequence", "numel_in", "numel_out", "group_rank", "rank", "other_rank", "waiter", "speaker"),
    *("joined", "expected", "not_joined", "unfinished", "group_id"),
)
"""Fields that are read as numbers. A snapshot may have been written by anybody."""


@dataclass(frozen=True)
class Statements:
    """All that is heard, in the order of ranks and lines."""

    by_rank: dict[int, tuple[LogEvent, ...]]
    unowned: tuple[LogEvent, ...]
    communicators: tuple[LoggedCommunicator, ...]

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


def hear(roster: Roster) -> Statements:
    """Return what counts of everything that was logged."""
    by_rank: dict[int, list[LogEvent]] = {rank: [] for rank in roster.ranks}
    for rank, view in roster.ranks.items():
        by_rank[rank] += [event for event in view.logged if _counts(event, view, roster)]
    unowned = []
    processes = _processes(roster) if roster.unowned else {}
    for event in roster.unowned:
        owner = processes.get((event.fields.get("writer_host", ""), event.fields.get("writer_pid", "")))
        if owner is not None and _counts(event, roster.ranks[owner], roster):
            by_rank[owner].append(event)
        elif owner is None and _counts(event, None, roster):
            unowned.append(event)
    heard = {rank: tuple(events) for rank, events in by_rank.items() if events}
    called = (each for each in roster.communicators if each.rank is None or each.rank in roster.ranks)
    return Statements(heard, tuple(unowned), tuple(c for c in called if c.size > 0 and (c.comm_rank or 0) >= 0))


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


def _counts(event: LogEvent, view: RankView | None, roster: Roster) -> bool:
    if not all(_NUMBER.fullmatch(event.fields[name]) for name in _NUMBERS if name in event.fields):
        return False
    if not _MARK.fullmatch(event.fields.get("enqueued", "0")):
        return False
    if not roster.live:
        return True
    views = list(roster.ranks.values()) if view is None else [view]
    identities = [each.identity for each in views if each.identity is not None]
    if event.at is None:
        return not any(identity.attempt for identity in identities) and is_last_word_of(event, views)
    begun = min((i.started_at for i in identities if i.started_at is not None), default=0.0)
    written = _written(event.path, views)
    return event.at >= begun - 1.0 and (written is None or written - event.at <= _SURVIVED_SECONDS)


def is_last_word_of(event: LogEvent, views: Iterable[RankView]) -> bool:
    """Has a process gone on since it wrote a line? Asked of the files of those who may have written it."""
    looks = (look for view in views for look in view.looks)
    return is_last_word(event, (file for look in looks if isinstance(look.logs, Logs) for file in look.logs.files))


def _written(path: str, views: list[RankView]) -> float | None:
    """When the file that a line stands in was last written to, in Unix seconds."""
    files = (f for view in views for look in view.looks if isinstance(look.logs, Logs) for f in look.logs.files)
    return max((f.modified_at for f in files if f.path == path and f.modified_at is not None), default=None)
