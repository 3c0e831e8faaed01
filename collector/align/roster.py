"""Every rank of an attempt, and what has become of its process: the values that the other steps read."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from collector.align.expected import Unanswered
from collector.align.groups.posted_pairs import with_unmatched
from collector.align.processes import newest_ns
from collector.align.ras.communicators import RasView
from shared.answer.diagnosis import Conflict, Place
from shared.missing import Missing, Reason
from shared.wire.log_events import EventKind, LogEvent
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import Exited, Identity, Process, RankSnapshot
from shared.wire.stacks import Stacks, Thread
from shared.wire.trace import Trace


class Presence(StrEnum):
    """What has become of a rank's process."""

    RUNNING = "running"
    STOPPED = "stopped"
    """State T: stopped by a signal, and not by a debugger that traces it."""
    FROZEN = "frozen"
    """With its cgroup."""
    UNINTERRUPTIBLE = "uninterruptible"
    EXITED = "exited"
    UNREACHABLE = "unreachable"
    ABSENT = "absent"
    """Whoever could have seen it looked, and it was not there."""
    LEFT_OUT = "left_out"
    """Not where all others are: of all files its own alone is missing, or the nodes that answered would hold all ranks.
    Suspect at most, for nobody knows that it was looked for where it is."""
    UNSEEN = "unseen"
    """Nobody looked where it may be: on another node, or in a file that was not given. It is accused of nothing."""
    RECORDED = "recorded"
    """Known from files only; whether it runs is not known."""


_LINE = re.compile(r"[0-9]{1,7}")
_FATAL = frozenset({EventKind.EXCEPTION, EventKind.OUT_OF_MEMORY})
GONE = frozenset({Presence.EXITED, Presence.UNREACHABLE, Presence.ABSENT, Presence.LEFT_OUT, Presence.UNSEEN})
"""Presences of which nobody can say where the rank is now."""
HELD = frozenset({Presence.STOPPED, Presence.FROZEN})
"""Those of a rank that does nothing, wherever it is, until somebody lets it go on."""


UNKNOWN = frozenset({Presence.UNREACHABLE, Presence.UNSEEN})
"""Presences of ranks that may be at work, or wait like everybody else."""


def place_raised(failure: LogEvent | None) -> Place | None:
    """Return the user's line from which an exception came, where its traceback shows one."""
    fields = {} if failure is None else failure.fields
    file, function, line = (fields.get(f"raised_{name}", "") for name in ("file", "function", "line"))
    return Place(function=function, file=file, line=int(line)) if file and _LINE.fullmatch(line) else None


@dataclass(frozen=True)
class RankView:
    """One rank as all looks together show it. `looks` run from oldest to newest."""

    rank: int
    presence: Presence
    looks: tuple[RankSnapshot, ...] = ()
    exited: Exited | None = None
    unanswered: Unanswered | None = None
    host: str | None = None
    logged: tuple[LogEvent, ...] = ()
    """What it wrote, in its own logs and in those that it shares, oldest look first."""
    apart: Thread | None = None
    """The thread of `stacks` that stands for it, where that is not the main one."""
    idles: bool = False
    """Does its main thread wait for work? Then what that thread does is no progress."""

    @cached_property
    def identity(self) -> Identity | None:
        if self.looks:
            return self.looks[-1].identity
        return self.exited.identity if self.exited is not None else None

    @cached_property
    def process(self) -> Process | None:
        """The newest that any look shows, without a tracer that not all show: that reads stacks, for a moment."""
        seen = [process for process in self._newest_first("process") if isinstance(process, Process)]
        others = [process for process in seen[1:] if process.tracer_pid != seen[0].tracer_pid]
        if not others or seen[0].tracer_pid is None:
            return seen[0] if seen else None
        state = next((process.state for process in others if process.state != "t"), "S")
        return seen[0].model_copy(
            update={"tracer_pid": None, "state": state if seen[0].state == "t" else seen[0].state}
        )

    @cached_property
    def trace(self) -> Trace | None:
        """The newest flight record that any look gave."""
        return next((t for t in self._newest_first("recorder") if isinstance(t, Trace)), None)

    @cached_property
    def stacks(self) -> Stacks | None:
        """The newest Python stacks, without native frames where there are such."""
        seen = [s for s in self._newest_first("stacks") if isinstance(s, Stacks)]
        return next((s for s in seen if not s.native), seen[0] if seen else None)

    @cached_property
    def native_stacks(self) -> Stacks | None:
        return next((s for s in self._newest_first("stacks") if isinstance(s, Stacks) and s.native), None)

    def thread_in(self, stacks: Stacks) -> Thread | None:
        """Return the thread that stands for the rank in the stacks of any look."""
        if self.apart is None or self.apart in stacks.threads:
            return self.apart or stacks.main
        same = (self.apart.tid, self.apart.name)
        return next((thread for thread in stacks.threads if (thread.tid, thread.name) == same), None)

    @cached_property
    def was_late(self) -> bool:
        """Was a part of it, or its end, not read in time by some look, as on a busy machine?"""
        parts = [part for look in self.looks for part in (look.process, look.stacks)]
        return any(map(timed_out, parts)) or any(
            isinstance(part, Process) and part.before and part.after is None for part in parts
        )

    @property
    def undumped(self) -> bool:
        """Is there a log of it at most, where others left dumps or stacks? It may wait like everybody else."""
        return self.presence is Presence.UNSEEN and bool(self.looks)

    @property
    def gone(self) -> bool:
        return self.presence in GONE

    @cached_property
    def newest_ns(self) -> int:
        """When its newest operation on record was issued, in Unix nanoseconds; 0: not known."""
        return newest_ns(self.trace)

    @property
    def exception(self) -> str | None:
        """The last exception or out-of-memory line that the rank itself logged, if any."""
        return None if self._last_fatal is None else self._last_fatal.text

    @property
    def raised_at(self) -> Place | None:
        """The user's line from which that came, or what its agent read of its end."""
        ended = None if self.exited is None else self.exited.last_failure
        return place_raised(ended or self._last_fatal)

    @property
    def _last_fatal(self) -> LogEvent | None:
        return next((event for event in reversed(self.logged) if event.kind in _FATAL), None)

    def _newest_first(self, source: str) -> Iterable[object]:
        return (getattr(look, source) for look in reversed(self.looks))


_NEEDS_TIME = ("process", "stacks")


def timed_out(part: object) -> bool:
    """Had an agent no time for it? Of files nothing is late."""
    return isinstance(part, Missing) and part.reason is Reason.TIMED_OUT


def _is_late(view: RankView, source: str) -> bool:
    told = [getattr(look, source) for look in view.looks]
    return all(isinstance(each, Missing) for each in told) and any(map(timed_out, told))


def never_seen(rank: int) -> RankView:
    """A rank that no source places anywhere."""
    return RankView(rank, Presence.UNSEEN)


Known = TypeVar("Known")


class ByRank(dict[int, Known]):
    """Values by rank, as a `dict` holds them; of any other rank `self[rank]` is what `unknown` says.

    Logs, RAS reports and names of files speak of ranks that left no stack, no dump or no process. That nothing is known
    of one is a value like any other: a verdict must not be lost for a rule that forgot to ask whether it is there.
    """

    def __init__(self, known: Mapping[int, Known], unknown: Callable[[int], Known]) -> None:
        super().__init__(known)
        self._unknown = unknown

    def __missing__(self, rank: int) -> Known:
        return self._unknown(rank)

    def with_changed(self, changed: Mapping[int, Known]) -> "ByRank[Known]":
        """Return these values with some in another form."""
        return ByRank({**self, **changed}, self._unknown)


@dataclass(frozen=True)
class Roster:
    """Every rank of one attempt of one job."""

    job: str | None
    world_size: int | None
    ranks: ByRank[RankView]
    conflicts: tuple[Conflict, ...]
    live: bool
    """Was any rank's process looked at (now or when a snapshot was saved), or are there bare dumps only?"""
    last_look_ns: int | None
    unowned: tuple[LogEvent, ...] = ()
    """What was logged into files that several ranks write, by lines that do not say who wrote them."""
    communicators: tuple[LoggedCommunicator, ...] = ()
    """What NCCL logged of its calls, by every process and file."""
    ras: RasView | None = None
    """What NCCL RAS tells of these ranks; None: nothing."""
    lost_by_ras: tuple[str, ...] = ()
    """Processes that RAS could not reach, whatever rank they are."""
    unlisted: tuple[str, ...] = ()
    """Nodes that had no time to list their processes, and show no rank."""
    clocks_off: Mapping[str, int] = field(default_factory=dict)
    """By how many nanoseconds nodes' clocks are ahead of most others', of those that are far off."""

    def ahead_ns(self, rank: int) -> int:
        """Return what to take from a rank's times before they are compared with those of other ranks."""
        return self.clocks_off.get(self.ranks[rank].host or "", 0)

    def present(self) -> Sequence[RankView]:
        return self._present

    def gone(self) -> Sequence[RankView]:
        return self._gone

    @cached_property
    def traces(self) -> dict[int, Trace]:
        """The newest flight record of each rank that has one."""
        return with_unmatched({rank: view.trace for rank, view in self.ranks.items() if view.trace is not None})

    @cached_property
    def owner(self) -> str | None:
        """The name of the job's user, where its nodes know one and agree."""
        seen = [view.identity for view in self.ranks.values()]
        gone = [view.exited.identity for view in self.ranks.values() if view.exited is not None]
        names = {identity.owner for identity in (*seen, *gone) if identity is not None} - {None}
        return names.pop() if len(names) == 1 else None

    @cached_property
    def by_host(self) -> Mapping[str | None, Sequence[RankView]]:
        """The ranks of each node."""
        nodes: dict[str | None, list[RankView]] = defaultdict(list)
        for view in self.ranks.values():
            nodes[view.host].append(view)
        return dict(nodes)

    @cached_property
    def late(self) -> Mapping[str, Sequence[int]]:
        """By source, the ranks that no look read in time, as on a busy machine; who is held by the kernel is none."""
        held = (Presence.UNINTERRUPTIBLE, *HELD)
        found = {
            source: [view.rank for view in self._present if view.presence not in held and _is_late(view, source)]
            for source in _NEEDS_TIME
        }
        return {source: ranks for source, ranks in found.items() if ranks and self.live}

    def by_known_host(self, ranks: Iterable[int]) -> dict[str, list[int]]:
        """Return on which nodes these ranks are, of those whose node is known."""
        hosts: dict[str, list[int]] = defaultdict(list)
        for rank in ranks:
            if (host := self.ranks[rank].host) is not None:
                hosts[host].append(rank)
        return dict(hosts)

    @cached_property
    def _present(self) -> tuple[RankView, ...]:
        return tuple(view for view in self.ranks.values() if not view.gone)

    @cached_property
    def _gone(self) -> tuple[RankView, ...]:
        return tuple(view for view in self.ranks.values() if view.gone)
