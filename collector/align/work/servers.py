"""Processes above ranks that clients send requests to, and that hand work on from there, by the rules of ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from collector.align.progress import Motion, rank_motion
from collector.align.roster import HELD, RankView
from collector.align.stacks.activity import Activity, activity_of
from collector.align.stacks.tables.row_types import WaitsOn
from collector.align.work.bystanders import as_rank
from shared.wire.snapshot import Process, RankSnapshot, Requests

_AT_HOME = frozenset({WaitsOn.CHILD, WaitsOn.OWN_THREAD})
"""What a main thread waits in while others of its process serve, or what it has started does."""


@dataclass(frozen=True)
class ServingProcess:
    """A process above ranks."""

    process: Process
    activity: Activity
    motion: Motion
    is_held: bool
    is_asked: bool
    """Have clients sent it what is not answered?"""
    hands_on: bool
    """Is it between the outermost of them and the ranks?"""

    @property
    def waits(self) -> bool:
        """Does it wait for work, or for those who do it? A main thread that sleeps tells of no other."""
        seen = self.activity
        sleeps = self.process.syscall is not None and "nanosleep" in self.process.syscall.name and not self.hands_on
        home = seen.waits_for_others or seen.waits_for_ranks or bool(seen.waits_on & _AT_HOME)
        return not self.is_held and (home or sleeps)


@dataclass(frozen=True)
class Family:
    """Servers of some ranks of one node, and what clients wait for there."""

    rank: int
    """The first of them."""
    host: str | None
    requests: Requests
    unaccepted_seconds: float
    """For how long looks show connections that no server has accepted."""
    servers: tuple[ServingProcess, ...]

    @property
    def waited_seconds(self) -> float:
        """For how long the client has waited that waits for longest."""
        return max(self.requests.oldest_seconds or 0.0, self.unaccepted_seconds)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self.requests.unanswered + self.requests.unaccepted


def families_of(view: RankView) -> Iterator[Family]:
    """Yield the family that is told of with a rank, by the newest look that tells of one."""
    telling = [look for look in view.looks if look.requests is not None]
    for newest in telling[-1:]:
        assert newest.requests is not None
        between = frozenset(_line_above(newest)[:-1])
        every = (as_rank(view, child, lambda look: look.above) for child in newest.above)
        servers = (_server(own, newest.requests, between) for own in every)
        unaccepted = _unaccepted_seconds(telling)
        yield Family(view.rank, view.host, newest.requests, unaccepted, tuple(filter(None, servers)))


def _unaccepted_seconds(looks: list[RankSnapshot]) -> float:
    """For how long each of the last looks shows some."""
    last = list(takewhile(lambda look: look.requests is not None and look.requests.unaccepted, reversed(looks)))
    times = [look.looked_at_ns for look in last if look.looked_at_ns is not None]
    return (max(times) - min(times)) / 1e9 if times else 0.0


def _server(own: RankView, requests: Requests, between: frozenset[int]) -> ServingProcess | None:
    if own.process is None:
        return None
    activity, pid = activity_of(own), own.process.pid
    held, asked = own.presence in HELD, pid in requests.held_by
    return ServingProcess(own.process, activity, rank_motion(own, activity), held, asked, pid in between)


def _line_above(look: RankSnapshot) -> list[int]:
    """Return who started the rank, who started that, and so on."""
    parents = {child.process.pid: child.process.parent_pid for child in look.above}
    found: list[int] = []
    parent = look.process.parent_pid if isinstance(look.process, Process) else None
    while parent in parents and parent not in found:
        found.append(parent)
        parent = parents[parent]
    return found
