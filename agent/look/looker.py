"""Looks at ranks: every source under a deadline, every failure a `Missing`, never two looks at one process at once.

The order inside one look at a rank matters:

1. the beat before, then the facts of `process`, while nothing of ours disturbs it;
2. all other sources side by side; `stacks` stops the process where native frames are asked for, and else never;
3. the beat after, once the process has come to rest again.

Between one look's `after` and the next look's `before` nothing of ours has touched the process.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from agent.deadline import Deadline, Late, ThreadPool
from agent.errors import Gone, missing_for
from agent.find.choose_ranks import Rank
from agent.proc.credentials import require_own
from agent.sources.logs.log_growth import own_log_fds, total_bytes
from agent.sources.look_context import LookContext
from agent.sources.progress_counters import take_settled_beat
from agent.sources.source import Answer, LookDepth, Source
from shared.errors import UnhangError
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Process, RankSnapshot

_AT_A_TIME = 16
_LAST_BEAT_SECONDS = 0.3
_PROMPT = frozenset({"process", "stacks"})
"""Sources that take a rank's beat or may stop it: these do not give way to the job, which would wait for them."""


class Observer(Protocol):
    """Who wants to know how sources fare and what the beats around a look were."""

    def source_done(self, source: str, seconds: float, reason: Reason | None) -> None: ...

    def looked(self, rank: Rank, before: Beat, after: Beat) -> None: ...


class _Flight:
    """A look that is under way."""

    def __init__(self, question: LookDepth) -> None:
        self.question = question
        self.done = threading.Event()
        self.result: RankSnapshot | None = None


class Looker:
    """Looks at ranks, several at a time, each of them once at a time."""

    def __init__(self, sources: Sequence[Source], pool: ThreadPool, observer: Observer) -> None:
        self._sources = sources
        self._pool = pool
        self._observer = observer
        self._lock = threading.Lock()
        self._flights: dict[tuple[int, int], _Flight] = {}
        self._turns = threading.BoundedSemaphore(_AT_A_TIME)

    def look_at_all(
        self, ranks: Sequence[Rank], context: LookContext, question: LookDepth, deadline: Deadline
    ) -> tuple[RankSnapshot, ...]:
        """Look at every rank, side by side."""
        looks = {str(r.key): partial(self.look, r, context, question, deadline) for r in ranks}
        outcomes = self._pool.run(looks, deadline)
        return tuple(
            self._lost(rank, outcome) if isinstance(outcome, Exception) else outcome
            for rank, outcome in zip(ranks, outcomes.values(), strict=True)
        )

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> RankSnapshot:
        """Look at one rank. Whoever asks the same while a look is under way gets the same answer."""
        while deadline.left() > 0:
            flight, mine = self._board(rank, question)
            if mine:
                return self._fly(flight, rank, context, deadline)
            flight.done.wait(deadline.left())
            if flight.question == question and flight.result is not None:
                return flight.result
        return self._lost(rank, Late())

    @contextmanager
    def alone_with(self, rank: Rank, context: LookContext, deadline: Deadline) -> Iterator[None]:
        """Let nobody else look at a rank meanwhile, and leave what is done to it out of the watch.

        Raises Late, Gone or NotPermitted.
        """
        mine = False
        while deadline.left() > 0 and not mine:
            flight, mine = self._board(rank, LookDepth("none"))
            if not mine:
                flight.done.wait(deadline.left())
        if not mine:
            raise Late("other looks at this rank were in progress the whole time")
        try:
            require_own(context.procfs, rank.stat.pid)
            before = _last_beat(rank, context)
            try:
                yield
            finally:
                with suppress(Gone):
                    self._observer.looked(rank, before, _last_beat(rank, context))
        finally:
            with self._lock:
                del self._flights[rank.key]
            flight.done.set()

    def _board(self, rank: Rank, question: LookDepth) -> tuple[_Flight, bool]:
        with self._lock:
            flight = self._flights.get(rank.key)
            if flight is not None:
                return flight, False
            self._flights[rank.key] = _Flight(question)
            return self._flights[rank.key], True

    def _fly(self, flight: _Flight, rank: Rank, context: LookContext, deadline: Deadline) -> RankSnapshot:
        try:
            with self._turns:
                flight.result = self._look(rank, context, flight.question, deadline)
            return flight.result
        finally:
            with self._lock:
                del self._flights[rank.key]
            flight.done.set()

    def _look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> RankSnapshot:
        looked_at_ns = time.time_ns()
        inner = deadline.sooner(_LAST_BEAT_SECONDS)
        first, *others = self._sources
        parts = self._ask((first,), rank, context, question, inner)
        process = parts["process"]
        if isinstance(process, Missing) and process.reason is Reason.GONE:
            return self._lost(rank, Gone(process.detail), looked_at_ns)
        parts |= self._ask(others, rank, context, question, inner)
        if isinstance(process, Process):
            parts["process"] = self._with_beats(process, rank, context, deadline)
        return RankSnapshot.model_validate({"identity": rank.identity, "looked_at_ns": looked_at_ns, **parts})

    def _ask(
        self, sources: Sequence[Source], rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline
    ) -> Answer:
        looks = {source.name: partial(_timed, source, rank, context, question, deadline) for source in sources}
        parts: Answer = {}
        for name, outcome in self._pool.run(looks, deadline, owner=rank.key, whose=rank.identity.user).items():
            answer, seconds = ({}, deadline.seconds) if isinstance(outcome, Exception) else outcome
            part = missing_for(name, outcome) if isinstance(outcome, Exception) else answer[name]
            self._observer.source_done(name, seconds, part.reason if isinstance(part, Missing) else None)
            parts |= {**answer, name: part}
        return parts

    def _with_beats(self, process: Process, rank: Rank, context: LookContext, deadline: Deadline) -> Process:
        last = {"beat": partial(_last_beat, rank, context)}
        beats = self._pool.run(last, deadline, owner=rank.key, whose=rank.identity.user)
        after = beats["beat"]
        if isinstance(after, Exception):
            return process
        if process.before is not None:
            self._observer.looked(rank, process.before, after)
        return process.model_copy(update={"after": after})

    def _lost(self, rank: Rank, error: Exception, looked_at_ns: int | None = None) -> RankSnapshot:
        missing = {source.name: missing_for(source.name, error) for source in self._sources}
        return RankSnapshot.model_validate({"identity": rank.identity, "looked_at_ns": looked_at_ns, **missing})


def _timed(
    source: Source, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline
) -> tuple[Answer, float]:
    """Ask one source, of the very process that was found and not of one that has its number now.

    A process may start a set-user-ID program at any time: what was seen of that is thrown away. To be run in a thread
    of its own, which ends with the look.
    """
    begun = time.monotonic()
    if source.name not in _PROMPT:
        give_way()
    try:
        if context.procfs.stat(rank.stat.pid).start_ticks != rank.stat.start_ticks:
            raise Gone(f"process {rank.stat.pid} exited, and another process has its pid now")
        require_own(context.procfs, rank.stat.pid)
        answer = source.look(rank, context, question, deadline)
        with suppress(Gone):
            require_own(context.procfs, rank.stat.pid)
    except UnhangError as error:
        answer = {source.name: missing_for(source.name, error)}
    return answer, time.monotonic() - begun


def _last_beat(rank: Rank, context: LookContext) -> Beat:
    pid = rank.stat.pid
    written = total_bytes(context.procfs, pid, own_log_fds(context, rank))
    return take_settled_beat(context.procfs, pid, children=rank.children, log_bytes=written)


NICENESS = 10
"""A thread of this niceness gets about a tenth of a processor that a job's thread keeps busy."""


def give_way() -> None:
    """Let the job run before the calling thread, for the rest of that thread's life; where it may not, nothing changes.

    Never in a thread that starts who stops a rank: a slow py-spy makes the rank stand still for longer. Measured beside
    two busy loops on two cores, it stood still for 17 ms (median) with py-spy at niceness 0 or 5, and for 34 ms at 10.
    """
    own = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, own, max(NICENESS, os.getpriority(os.PRIO_PROCESS, own)))
