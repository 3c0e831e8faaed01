"""How far the ranks of one job are, put together from the digests of its nodes.

A rank that went on when its agent last told of it goes on until the agent says otherwise, which it does at once. Of a
node whose agent has fallen silent nothing is known any more: that is no sign of standing still, nor of going on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple

from collector.detect.limits import SIGN_SECONDS, SILENT_SECONDS
from collector.detect.pace import JobPace
from shared.endings import JobEnd, end_of
from shared.wire.kernel_events import KERNEL_WORDS
from shared.wire.registration import STILL_SECONDS, ExitedRank, JobDigest, Sign

MOST_RANKS_WATCHED = 131_072
"""Of one job. Nodes could make more up."""
_SAME_MOMENT_SECONDS = 1.0
"""Times that agents round, send and count from differ by so much."""


class WatchedRank(NamedTuple):
    """One living rank. Times are the collector's, monotonic."""

    host: str
    heard: float
    still_since: float | None
    idle_since: float | None
    is_still: bool
    is_idle: bool
    pending: bool
    group: str
    sequence: int


@dataclass(frozen=True, slots=True)
class ExitedView:
    """One rank that has ended."""

    host: str
    rank: ExitedRank
    since: float


_SIGNS = {
    **{kind.value: words for kind, words in KERNEL_WORDS.items()},
    "port_down": "a network port down",
    "peer_dead": "a process that NCCL's RAS has declared dead",
}
"""What agents send as the kind of a sign; a newer agent may send others."""


@dataclass(frozen=True, slots=True)
class NodeSign:
    """Something that happened to a node of the job."""

    host: str
    kind: str
    name: str
    since: float

    @property
    def words(self) -> str:
        """It in a few words."""
        about = f" ({self.name})" if self.name else ""
        return f"{self.host} reports {_SIGNS.get(self.kind, self.kind.replace('_', ' '))}{about}"


class JobView:
    """The newest attempt of one job. Nothing here waits or reads a clock."""

    def __init__(self) -> None:
        self.attempt = 0
        self.world_size: int | None = None
        self.timeout_seconds: float | None = None
        self.ranks: dict[int, WatchedRank] = {}
        self.exited: dict[int, ExitedView] = {}
        """As those below, in the order in which they were last heard of: each second it is asked who was lately."""
        self._still: dict[int, WatchedRank] = {}
        self._going: dict[int, WatchedRank] = {}
        """Those of `ranks` that stand still, and those that go on, by their marks: what is asked each second, and for
        each digest, goes through the one that is short."""
        self._of_host: dict[str, tuple[int, ...]] = {}
        self.timed_out: frozenset[int] = frozenset()
        """Ranks that have logged a timeout while they stood still."""
        self.spins_since: dict[int, float] = {}
        """By rank, since when its GPU is known to spin."""
        self._asked_since: dict[str, float] = {}
        """By node, since when a request waits there that its servers have not answered."""
        self._signs: dict[str, tuple[NodeSign, ...]] = {}
        self.heard = 0.0
        self.highest = -1
        """The highest number that any rank has issued."""
        self.pace = JobPace()

    def take(self, host: str, digest: JobDigest, now: float, signs: Sequence[Sign] = ()) -> float | None:
        """Take in what one node tells. Returns how long all ranks had stood still, where they go on now."""
        if digest.attempt < self.attempt:
            return None  # what is left over from before a restart
        if digest.attempt > self.attempt:
            self.attempt, self.ranks, self.exited, self.highest = digest.attempt, {}, {}, -1
            self._still, self._going, self._of_host, self._signs = {}, {}, {}, {}
            self.spins_since, self.timed_out, self._asked_since = {}, frozenset(), {}
            self.pace = JobPace()
        moving = self._moving_again(digest)
        stood_since = self.stood_since(now) if moving else None
        self.heard = now
        self.world_size = digest.world_size if digest.world_size is not None else self.world_size
        self.timeout_seconds = digest.timeout_seconds or self.timeout_seconds
        spun = {rank: self.spins_since.get(rank, now) for rank in digest.spinning}
        self.drop(host)
        self._take_living(host, digest, now)
        self.pace.take(self.highest, now)
        self.spins_since |= {rank: since for rank, since in spun.items() if rank in self.ranks}
        self.timed_out |= frozenset(digest.timed_out) & self.ranks.keys()
        if digest.unanswered is not None:
            self._asked_since[host] = now - digest.unanswered
        self._signs[host] = tuple(NodeSign(host, sign.kind, sign.name, now - sign.age) for sign in signs)
        for each in digest.exited:
            told = self.exited.get(each.rank)
            if each.rank not in self.ranks and len(self.exited) < MOST_RANKS_WATCHED:
                self.exited[each.rank] = ExitedView(host, each, now if told is None else told.since)
        return None if stood_since is None else self._gone_on_after(stood_since, moving)

    def drop(self, host: str) -> None:
        """Forget the living ranks of a node."""
        for rank in self._of_host.pop(host, ()):
            if rank in self.ranks and self.ranks[rank].host == host:
                del self.ranks[rank]
                self._still.pop(rank, None)
                self._going.pop(rank, None)
                self.spins_since.pop(rank, None)
                if rank in self.timed_out:
                    self.timed_out -= {rank}
        self._signs.pop(host, None)
        self._asked_since.pop(host, None)

    def _moving_again(self, digest: JobDigest) -> list[int]:
        """Return the ranks that stood still, and go on."""
        told = zip(digest.ranks, digest.still, strict=True)
        moving = [rank for rank, still in told if still is not None and still < STILL_SECONDS]
        return [rank for rank in moving if rank in self.ranks and self.ranks[rank].is_still]

    def _take_living(self, host: str, digest: JobDigest, now: float) -> None:
        columns = zip(
            digest.ranks, digest.still, digest.idle, digest.pending, digest.group, digest.sequence, strict=True
        )
        ranks, groups = self.ranks, digest.groups
        for rank, still, idle, pending, group, sequence in islice(columns, MOST_RANKS_WATCHED - len(ranks)):
            self._of_host[host] = digest.ranks
            if sequence > self.highest:
                self.highest = sequence
            ranks.pop(rank, None)  # another node may have told of it before
            ranks[rank] = view = WatchedRank(
                host,
                now,
                None if still is None else now - still,
                None if idle is None else now - idle,
                still is not None and still >= STILL_SECONDS,
                idle is not None and idle >= STILL_SECONDS,
                pending,
                groups[group] if group >= 0 else "",
                sequence,
            )
            self.exited.pop(rank, None)
            self._still.pop(rank, None)
            self._going.pop(rank, None)
            if still is not None:
                (self._still if view.is_still else self._going)[rank] = view

    def _gone_on_after(self, stood_since: float, ranks: Iterable[int]) -> float | None:
        views = (self.ranks[rank] for rank in ranks if rank in self.ranks)
        moved = [v.still_since for v in views if v.still_since is not None and v.still_since > stood_since]
        moved = [at for at in moved if at > stood_since + _SAME_MOMENT_SECONDS]
        return min(moved) - stood_since if moved else None

    @property
    def end(self) -> JobEnd:
        """Return how it ended, where no rank is left, from what agents have told of its ranks."""
        return end_of((each.rank for each in self.exited.values()), self.world_size)

    @property
    def quietest(self) -> float | None:
        """When the node last told of its ranks that has been silent for longest; None: there are no ranks."""
        return next((view.heard for view in self.ranks.values()), None)

    def known(self, now: float) -> Iterator[WatchedRank]:
        """Iterate over the ranks whose agents have told of them lately."""
        return (view for _, view in _lately(self.ranks, now))

    def stood_since(self, now: float) -> float | None:
        """Return since when no rank has gone on; None: some go on, or no rank's marks are known."""
        if any(_lately(self._going, now)):
            return None
        return max(self._still_since(now), default=None)

    def partly_stood_since(self, now: float) -> float | None:
        """Return since when the rank has stood that stands for longest, while others go on."""
        return min(self._still_since(now), default=None)

    def _still_since(self, now: float) -> Iterator[float]:
        """Iterate over the times since which ranks stand whose agents have told of them lately."""
        return (view.still_since for _, view in _lately(self._still, now) if view.still_since is not None)

    def idle_since(self, now: float) -> float | None:
        """Return since when no rank has done anything, where nobody's marks are known; None: some do, or they are."""
        times = []
        for view in self.known(now):
            if view.still_since is not None or not view.is_idle or view.idle_since is None:
                return None
            times.append(view.idle_since)
        return max(times, default=None)

    def behind(self, now: float) -> tuple[int, int] | None:
        """Return how many ranks wait in an operation of a group, and one that has not issued it; None: nobody does."""
        highest: dict[str, int] = {}
        still = [(rank, view) for rank, view in self._still.items() if view.group]
        for _, view in still:
            if view.pending and now - view.heard <= SILENT_SECONDS:
                highest[view.group] = max(highest.get(view.group, -1), view.sequence)
        for rank, view in still:
            ahead = highest.get(view.group, -1)
            if 0 <= view.sequence < ahead:
                return sum(v.group == view.group and v.sequence == ahead for _, v in still), rank
        return None

    @property
    def asked_since(self) -> float | None:
        """Since when the request waits that its servers have not answered for longest; None: there is none."""
        return min(self._asked_since.values(), default=None)

    @property
    def is_waited_for(self) -> bool:
        """Has it several ranks, or clients that wait? One rank that is alone waits for nobody."""
        many = len(self.ranks) + len(self.exited) > 1 and (self.world_size is None or self.world_size > 1)
        return many or self.asked_since is not None

    def sign(self, now: float) -> NodeSign | None:
        """Return the first thing that lately happened to a node, where some ranks stand still; None: nothing."""
        lately = self.signs(now)
        if not lately or not any(_lately(self._still, now)):
            return None
        return min(lately, key=lambda sign: (sign.since, sign.host, sign.name))

    def signs(self, now: float) -> list[NodeSign]:
        """Return all that lately happened to nodes of the job."""
        return [sign for signs in self._signs.values() for sign in signs if now - sign.since <= SIGN_SECONDS]

    def spinning_since(self, now: float) -> float | None:
        """Return since when the GPUs of most ranks spin, where no rank is known to go on; None: they do not."""
        if 2 * len(self.spins_since) <= len(self.ranks):
            return None
        known = list(_lately(self.ranks, now))
        if any(view.still_since is not None and not view.is_still for _, view in known):
            return None
        times = sorted(self.spins_since[rank] for rank, _ in known if rank in self.spins_since)
        most = len(known) // 2
        return times[most] if len(times) > most else None

    def have_crashed(self, ranks: Iterable[int]) -> bool:
        """Have all of these ended by a signal or with an error?"""
        return all(rank in self.exited and self.exited[rank].rank.abnormally for rank in ranks)

    def gone_on(self, ranks: Iterable[int], since: float) -> tuple[int, int]:
        """Return how many of these ranks have gone on since a time, and how many of them still live."""
        views = [self.ranks[rank] for rank in ranks if rank in self.ranks]
        moved = [v for v in views if v.still_since is not None and v.still_since > since + _SAME_MOMENT_SECONDS]
        return len(moved), len(views)


def _lately(ranks: dict[int, WatchedRank], now: float) -> Iterator[tuple[int, WatchedRank]]:
    """Iterate over those of whom agents have told lately. The dict is in the order in which they were heard of."""
    return takewhile(lambda each: now - each[1].heard <= SILENT_SECONDS, reversed(ranks.items()))
