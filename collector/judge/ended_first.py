"""Who ended first in a job that died, and why, by how all of its ranks ended.

1. Ended first has who was OOM-killed, crashed, was killed or failed by itself, where most ranks ended otherwise: in
   this order, for launchers and lost connections end the others in the weaker ways. Nobody is named for a signal that
   came to most of them. A rank that had stood in one operation before it failed or aborted had waited for somebody,
   and its watchdog or its timeout ended it.
2. Who was asked to end (SIGTERM, SIGINT) is ended by a launcher, a scheduler or a person, and so is who was killed some
   time after others were asked. If all were, the job was cancelled.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collector.align.roster import RankView
from collector.align.thresholds import ENDED_WAITING_SECONDS, LINGERS_SECONDS, is_majority
from collector.judge.certainty import Support
from collector.judge.logs.own_failures import is_own_failure
from collector.judge.report.evidence import last_issued
from shared.answer.words import Cause
from shared.endings import asked_to_end, in_words
from shared.plural import counted
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent
from shared.wire.snapshot import Exited
from shared.wire.trace import LastIssued

_SIGABRT, _SIGKILL = 6, 9
_CRASHES = frozenset({4, 7, 8, 11})
"""SIGILL, SIGBUS, SIGFPE, SIGSEGV, which nobody sends: the process itself is at fault."""
_MOST_WAYS = 6
"""Ways to end that are told: of a thousand ranks nearly all end alike."""
_FAILURES = frozenset({EventKind.EXCEPTION, EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR})


@dataclass(frozen=True)
class Endings:
    """How each rank ended, as far as somebody saw it."""

    of: Mapping[int, Exited]
    failures: Mapping[int, LogEvent]
    """What ranks logged of a failure of their own before they exited with an error."""

    @cached_property
    def first(self) -> tuple[int, ...]:
        """Who ended before the others and made them end, where that is told; else nobody."""
        ended = self.of.items()
        failed = [rank for rank, exited in ended if _failed(exited)]
        found = (
            [rank for rank, exited in ended if exited.oom_killed]
            or [rank for rank, exited in ended if exited.signal in _CRASHES]
            or [rank for rank, exited in ended if exited.signal == _SIGKILL and not self._lingered(exited)]
            or [rank for rank in failed if rank in self.failures]
            or self._failed_alone(failed)
        )
        found = [rank for rank in found if not self._lingered(self.of[rank])]
        if is_majority(len(found), len(self.of)) and len(self.of) > 1:
            return ()
        return tuple(rank for rank in found if not _had_waited(self.of[rank]))

    @cached_property
    def cancelled(self) -> tuple[int, ...]:
        """Who was ended by a launcher, a scheduler or a person."""
        return tuple(
            rank
            for rank, exited in self.of.items()
            if asked_to_end(exited) or (exited.signal == _SIGKILL and self._lingered(exited))
        )

    @cached_property
    def is_cancelled(self) -> bool:
        """Was the job ended as a whole? Some ranks may have come to their end before that."""
        cancelled = set(self.cancelled)
        return all(rank in cancelled or exited.exit_code == 0 for rank, exited in self.of.items())

    @property
    def support(self) -> Support:
        """What shows who ended first."""
        if not self.first:
            return Support.ASKED if self.is_cancelled else Support.ENDED
        unexplained = [rank for rank in self.first if _failed(self.of[rank]) and rank not in self.failures]
        return Support.EXIT_CODE if unexplained else Support.ENDINGS

    @property
    def cause(self) -> Cause:
        """Why who ended first did, or all where nobody is known to have been the first."""
        told = [self.of[rank] for rank in self.first or self.of]
        if any(exited.oom_killed for exited in told):
            return Cause.OOM
        if self.first and all(rank in self.failures for rank in self.first):
            kinds = {self.failures[rank].kind for rank in self.first}
            return Cause.OOM if EventKind.OUT_OF_MEMORY in kinds else Cause.EXCEPTION
        if not self.first and self.is_cancelled:
            return Cause.CANCELLED
        killed = any(exited.signal and not asked_to_end(exited) for exited in told)
        return Cause.SIGNAL if killed else Cause.UNKNOWN

    def _failed_alone(self, failed: Sequence[int]) -> list[int]:
        """Return the one that failed alone, or in its own way: who loses a peer raises an exception, and exits with 1.

        An abort tells nothing where it is not known for how long the rank had waited: a watchdog aborts a victim.
        """
        of_their_own = [rank for rank in failed if self.of[rank].exit_code != 1] or failed
        told = [rank for rank in of_their_own if self.of[rank].signal is None or last_issued(self.of[rank]) is not None]
        return told if len(of_their_own) == 1 and not any(map(self._was_left, told)) else []

    def _was_left(self, rank: int) -> bool:
        """Did it exit with 1, still in an operation, where another rank exited with 0? It may have lost that peer."""
        exited, last = self.of[rank], last_issued(self.of[rank])
        left = any(each.exit_code == 0 for other, each in self.of.items() if other != rank)
        return left and exited.exit_code == 1 and last is not None and was_in(last)

    def _lingered(self, exited: Exited) -> bool:
        """Did it end only some time after others had been asked to, as who does not heed `scancel` does?

        Clocks of two nodes differ: it must have lived for longer than those on other nodes as well.
        """
        ended, lived, host = _times(exited)
        earliest, shortest, by_host = self._asked
        if ended - by_host.get(host, ended) >= LINGERS_SECONDS:
            return True
        return min(ended - earliest, lived - shortest) >= LINGERS_SECONDS

    @cached_property
    def _asked(self) -> tuple[float, float, Mapping[str | None, float]]:
        """Of those who were asked to end: the earliest end, of each node too, and the shortest life, in seconds."""
        times = [_times(exited) for exited in self.of.values() if exited.gone_by_ns and asked_to_end(exited)]
        by_host: dict[str | None, float] = {}
        for ended, _, host in times:
            by_host[host] = min(ended, by_host.get(host, ended))
        lives = (lived for _, lived, _ in times)
        return min(by_host.values(), default=math.inf), min(lives, default=math.inf), by_host


def _times(exited: Exited) -> tuple[float, float, str | None]:
    """When it had ended and for how long it had lived, in seconds, and on which node."""
    ended, identity = (exited.gone_by_ns or 0) / 1e9, exited.identity
    began = None if identity is None else identity.started_at
    return ended, ended - (began or 0.0), None if identity is None else identity.host


def endings_of(views: Sequence[RankView]) -> Endings:
    """Return how ranks ended that are gone, and what they had logged of it."""
    ended = {view.rank: view.exited or Exited(pid=0) for view in views}
    failures = {view.rank: _failure(view, ended[view.rank]) for view in views}
    return Endings(ended, {rank: line for rank, line in failures.items() if line is not None})


def _failure(view: RankView, exited: Exited) -> LogEvent | None:
    """Return the last failure that a rank logged before it exited with an error.

    None where that is an echo of another's: it had lost its peers, or waited in vain.
    """
    logged = (event for event in reversed(view.logged) if event.kind in _FAILURES)
    last = exited.last_failure or next(logged, None)
    return last if last is not None and _failed(exited) and is_own_failure(last) else None


def _failed(exited: Exited) -> bool:
    return exited.signal == _SIGABRT or bool(exited.exit_code and not asked_to_end(exited))


def _had_waited(exited: Exited) -> bool:
    """Did it fail after it had stood in one operation for long, as who gives up waiting for somebody does?"""
    stood = stood_seconds([exited])
    return _failed(exited) and stood is not None and stood >= ENDED_WAITING_SECONDS


def stood_seconds(ended: Iterable[Exited]) -> float | None:
    """Return for how long those left in an operation had stood in it, at least; None: none was."""
    lasts = ((exited.gone_by_ns, last_issued(exited)) for exited in ended)
    stood = (max(0.0, (gone_ns - last.since_ns) / 1e9) for gone_ns, last in lasts if gone_ns and last and was_in(last))
    return min(stood, default=None)


def was_in(mark: LastIssued) -> bool:
    """Was it in the operation still? Where completions are not told, nobody knows."""
    return mark.sequence is not None and mark.completed is not None and mark.completed < mark.sequence


def how_they_ended(ended: Mapping[int, Exited]) -> str:
    """Say how each rank ended; those that ended alike are told together."""
    how: dict[str, list[int]] = defaultdict(list)
    for rank, exited in ended.items():
        how[in_words(exited)].append(rank)
    said = [
        f"{ranks_in_words(ranks)} {words if len(ranks) == 1 else words.replace('was ', 'were ', 1)}"
        for words, ranks in how.items()
    ]
    more = [f"and {counted(len(said) - _MOST_WAYS, 'other way')}"] if len(said) > _MOST_WAYS else []
    return "; ".join([*said[:_MOST_WAYS], *more])
