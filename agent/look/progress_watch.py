"""Remembers the ranks between questions: since when each has stood still, how far it is, and which have gone.

Whoever issues or completes operations moves. Whoever does not may be at work between two of them: its counters show
that. But they move in a rank that spins or polls while it waits in an operation, too. So once one has been pending for
longer than a rank may be at work beside it, CPU time and wake-ups count no more.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from agent.errors import Gone
from agent.find.choose_ranks import FoundRanks, Rank, exited_from
from agent.find.processes import Listing
from agent.look.mark_ring import MarkRing
from agent.proc.exit_status import HeldProcess, read_status
from agent.proc.oom_counts import OomCount, count_at, oom_counts
from agent.proc.procfs import ProcFs
from agent.sources.logs.last_failure import HeldLogs
from agent.sources.logs.log_growth import own_log_fds, tells_timeout, total_bytes
from agent.sources.look_context import LookContext
from agent.sources.progress_counters import has_moved, take_beat
from agent.sources.recorder.memory.marks import GroupMark
from agent.sources.serving.requests import unanswered_by
from shared.errors import NotPermitted
from shared.wire.snapshot import Beat, Exited, Identity, Requests
from shared.wire.trace import Marks

_GONE_IS_TOLD_SECONDS = 900.0
_MOST_GONE = 4096
_WAITS_SECONDS, _WAITS_PAUSES = 60.0, 10.0
"""How long nothing new must have been issued, and how many times the longest pause that was seen, until a rank with an
operation pending is taken to do nothing but wait: as long as a rank at work is given by the judge (BUSY_SECONDS)."""

_STANDS_SECONDS = 5.0
"""How long a rank must have stood still until what it writes is read for a watchdog's line."""

Key = tuple[int, int]

_Job = tuple[str | None, str | None]
"""Its name and its user."""


@dataclass
class _Watched:
    rank: Rank
    logs: tuple[int, ...]
    """The descriptors of its own log files that can be asked for their size without risk."""
    oom_counts: tuple[OomCount, ...]
    held: HeldProcess | None
    """None in a recorded tree, whose process ids are those of strangers here."""
    held_logs: HeldLogs
    last: Beat | None = None
    still_since: float | None = None
    since: float | None = None
    """When the first beat was taken."""
    marks: MarkRing = field(default_factory=MarkRing)
    gone_by: float | None = None
    """When its memory was first found to be gone."""
    timed_out: float | None = None
    """When a line of a watchdog was first found in its log, since it last went on."""
    requests: Requests | None = None
    """What clients of its servers wait for, if it has stood still for a while; None: it goes on, or has no servers."""
    unaccepted_since: float | None = None
    """Since when, of such a one, connections wait to be accepted."""

    def only_waits(self, now: float) -> bool:
        """Has it an operation pending, and has it issued nothing for longer than it may be at work beside that?"""
        still, pause = self.marks.still_since, self.marks.longest_pause or 0.0
        return self.marks.is_pending and still is not None and now - still > max(_WAITS_SECONDS, _WAITS_PAUSES * pause)


@dataclass(frozen=True)
class RankProgress:
    """How far one rank is, as the beats have seen it. Times are in seconds."""

    identity: Identity
    still: float | None
    """Since when its marks have stood; None: they were never read."""
    idle: float | None
    newest: GroupMark | None
    may_be_pending: bool
    timed_out: bool = False
    """Has it written a watchdog's line while it stood still?"""
    unanswered: float | None = None
    """For how long a request has waited at most that was sent to its servers, while it stood still; None: none has."""


@dataclass(frozen=True)
class _Departed:
    exited: Exited
    rank: Rank
    at: float


class Watch:
    """What an agent knows of its ranks beyond the present moment. One caller at a time may `see`."""

    def __init__(self, procfs: ProcFs, host: str, clock: Callable[[], float] = time.time) -> None:
        self._procfs = procfs
        self._host = host
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[Key, _Watched] = {}
        self._departed: list[_Departed] = []

    def see(self, found: FoundRanks, listing: Listing) -> tuple[Exited, ...]:
        """Take in who is here now; return who has exited, with the rank it was where that is known."""
        living = {rank.key: rank for rank in found.ranks}
        new = {key: self._begin(rank) for key, rank in living.items() if key not in self._watched}
        left = (watched.rank.key for watched in self._copy() if watched.rank.key not in living)
        ending = {key for key in left if self._is_ending(key, listing)}
        with self._lock:
            gone = [self._watched.pop(key) for key in list(self._watched) if key not in living and key not in ending]
            self._watched.update(new)
            for key, rank in living.items():
                self._watched[key].rank = rank
        for watched in gone:
            self._depart(watched, listing)
        known = {departed.exited.pid: departed.exited for departed in self._told(found.ranks)}
        zombies = {zombie.pid: zombie for zombie in found.exited}
        return tuple((zombies | known)[pid] for pid in sorted(zombies | known))

    def beat(self) -> None:
        """Take everyone's beat and note who has moved."""
        context = LookContext(self._procfs, self._host)
        for watched in self._copy():
            pid = watched.rank.stat.pid
            try:
                written = total_bytes(self._procfs, pid, watched.logs)
                beat = take_beat(self._procfs, pid, children=watched.rank.children, log_bytes=written)
            except (Gone, NotPermitted):
                continue
            told = self._may_tell_timeout(watched, beat) and tells_timeout(self._procfs, pid, watched.logs)
            requests = unanswered_by(watched.rank.above, context) if self._has_nothing_to_do(watched) else None
            with self._lock:
                self._note(watched, beat)
                watched.requests = requests
                waits = requests is not None and requests.unaccepted > 0
                watched.unaccepted_since = (watched.unaccepted_since or self._clock()) if waits else None
                watched.timed_out = self._clock() if told else watched.timed_out

    def take_marks(self, rank: Rank, marks: tuple[GroupMark, ...]) -> None:
        """Note how far a rank is; if it has gone on, it has moved."""
        with self._lock:
            watched = self._watched.get(rank.key)
            if watched is None:
                return
            now = self._clock()
            watched.gone_by = None
            if watched.marks.note(now, marks):
                watched.still_since, watched.timed_out = now, None

    def take_gone(self, rank: Rank) -> None:
        """Note that a rank has no memory any more: it has ended by now."""
        with self._lock:
            watched = self._watched.get(rank.key)
            if watched is not None and watched.gone_by is None:
                watched.gone_by = self._clock()

    def marks(self, key: Key) -> Marks | None:
        """Return how far a rank was when that was last read; None: never."""
        with self._lock:
            watched = self._watched.get(key)
            return None if watched is None else watched.marks.told()

    def looked(self, key: Key, before: Beat, after: Beat) -> None:
        """Leave our own look at a rank out of account: what it did from `before` to `after` was our doing."""
        with self._lock:
            watched = self._watched.get(key)
            if watched is not None and watched.last is not None:
                self._note(watched, before)
                watched.last = after

    def idle_for_seconds(self, key: Key) -> float | None:
        """Return how long a rank has been seen without progress; None when it has not been watched."""
        return self.seen_for_seconds(key)[0]

    def seen_for_seconds(self, key: Key) -> tuple[float | None, float | None]:
        """Return how long a rank has been seen without progress, and how long it has been watched at all."""
        with self._lock:
            watched = self._watched.get(key)
            times = (None, None) if watched is None else (watched.still_since, watched.since)
        now = self._clock()
        still, since = (None if time is None else max(0.0, now - time) for time in times)
        return still, since

    @property
    def some_have_gone(self) -> bool:
        """Has some rank no memory any more, though it is not known yet how it ended?"""
        return any(watched.gone_by is not None for watched in self._copy())

    def progress(self) -> tuple[tuple[RankProgress, ...], tuple[Exited, ...]]:
        """Return how far every living rank is, and who has ended lately."""
        now = self._clock()
        with self._lock:
            living = tuple(_progress_of(watched, now) for watched in self._watched.values())
            return living, tuple(gone.exited for gone in self._departed if now - gone.at < _GONE_IS_TOLD_SECONDS)

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """The ranks known to live."""
        return tuple(watched.rank for watched in self._copy())

    def _may_tell_timeout(self, watched: _Watched, beat: Beat) -> bool:
        """Has a rank that stands still written something? Then it is worth reading."""
        still = watched.marks.still_since
        stands = still is not None and self._clock() - still >= _STANDS_SECONDS
        grew = watched.last is not None and (beat.log_bytes or 0) > (watched.last.log_bytes or 0)
        return stands and grew and watched.timed_out is None

    def _has_nothing_to_do(self, watched: _Watched) -> bool:
        """Has it servers, and issues or does it nothing? Of an engine at work nobody need know who waits for it."""
        stood = [self._clock() - at for at in (watched.still_since, watched.marks.still_since) if at is not None]
        return bool(watched.rank.above) and max(stood, default=0.0) >= _STANDS_SECONDS

    def _copy(self) -> tuple[_Watched, ...]:
        with self._lock:
            return tuple(self._watched.values())

    def _note(self, watched: _Watched, beat: Beat) -> None:
        now = beat.at_ns / 1e9
        last, waits = watched.last, watched.only_waits(now)
        if last is None or watched.still_since is None or has_moved(last, beat, waits=waits):
            watched.still_since = now
        watched.last = beat
        watched.since = now if watched.since is None else watched.since

    def _begin(self, rank: Rank) -> _Watched:
        context = LookContext(self._procfs, self._host)
        held = HeldProcess(rank.stat.pid) if self._procfs.is_real else None
        counts = oom_counts(self._procfs, rank.stat.pid)
        return _Watched(rank, own_log_fds(context, rank), counts, held, HeldLogs(context, rank))

    def _is_ending(self, key: Key, listing: Listing) -> bool:
        """Has it given up its memory, and not ended yet? It takes a while for much; how it has ended is told later."""
        pid, start_ticks = key
        stat = listing.stats.get(pid)
        if stat is None or stat.start_ticks != start_ticks or stat.state == "Z":
            return False
        with suppress(Gone, NotPermitted):
            return self._procfs.text(pid, "statm", most=256).startswith("0 ")
        return True

    def _depart(self, watched: _Watched, listing: Listing) -> None:
        """Describe how a rank went. Until it is reaped its status is known; afterwards where the kernel keeps it."""
        rank, stat = watched.rank, listing.stats.get(watched.rank.stat.pid)
        if stat is not None and stat.start_ticks == rank.stat.start_ticks and stat.state == "Z":
            exited = exited_from(stat, (rank,), self._procfs)
        elif stat is not None and stat.start_ticks == rank.stat.start_ticks:
            return  # alive, and no rank any more: it was a launcher, seen before it had started anybody
        else:
            code, killed_by = read_status(None if watched.held is None else watched.held.exit_status())
            exited = Exited(
                pid=rank.stat.pid,
                parent_pid=rank.stat.parent_pid,
                name=rank.stat.name,
                exit_code=code,
                signal=killed_by,
            )
        killed = _was_oom_killed(watched.oom_counts, exited)
        now = self._clock()
        told: dict[str, object] = {"identity": rank.identity, "oom_killed": killed, "last_marks": watched.marks.told()}
        gone_by_ns = int((now if watched.gone_by is None else watched.gone_by) * 1e9)
        failed = bool(exited.exit_code) or exited.signal == signal.SIGABRT
        told |= {"gone_by_ns": gone_by_ns}
        if failed or exited.signal:
            last = watched.held_logs.last_words(failed=failed)
            told |= {"last_failure": last.failure, "last_logs": last.ends}
        known = exited.model_copy(update=told)
        self._departed = [*self._departed[-_MOST_GONE:], _Departed(known, rank, now)]

    def _told(self, ranks: Iterable[Rank]) -> list[_Departed]:
        """Forget who went long ago or has come back, and return the others.

        Whoever was gone before the present ranks of its job began belonged to an earlier run of it.
        """
        jobs: dict[_Job, list[Rank]] = {}
        for rank in ranks:
            jobs.setdefault((rank.identity.job, rank.identity.user), []).append(rank)
        self._departed = [d for d in self._departed if _still_matters(d, jobs, self._clock())]
        return self._departed


def _progress_of(watched: _Watched, now: float) -> RankProgress:
    marks = watched.marks
    still, idle = (None if at is None else max(0.0, now - at) for at in (marks.still_since, watched.still_since))
    timed_out = watched.timed_out is not None
    asked = None if watched.requests is None else watched.requests.oldest_seconds
    unaccepted = None if watched.unaccepted_since is None else max(0.0, now - watched.unaccepted_since)
    unanswered = max((each for each in (asked, unaccepted) if each is not None), default=None)
    return RankProgress(watched.rank.identity, still, idle, marks.newest, marks.may_be_pending, timed_out, unanswered)


def _was_oom_killed(counts: tuple[OomCount, ...], exited: Exited) -> bool | None:
    """Compare the counts of its control group and those above it with what they were; None: they do not tell.

    A count above its own group may have risen for a neighbour: it tells only of one that SIGKILL has ended.
    """
    if exited.exit_code is not None or exited.signal not in (None, signal.SIGKILL):
        return False
    for before in counts:
        now = count_at(before.path)
        if now is not None and before.own:
            return now > before.kills
        if now is not None and now == before.kills:
            return False
        if now is not None:
            return True if exited.signal == signal.SIGKILL else None
    return None


def _still_matters(departed: _Departed, jobs: dict[_Job, list[Rank]], now: float) -> bool:
    living = jobs.get((departed.rank.identity.job, departed.rank.identity.user))
    if not living:
        return now - departed.at < _GONE_IS_TOLD_SECONDS
    identity = departed.rank.identity
    replaced = any(r.identity.rank == identity.rank for r in living)
    first = min(r.identity.started_at or 0.0 for r in living)
    return not replaced and departed.at >= first and all(r.identity.attempt <= identity.attempt for r in living)
