"""Processes that the kernel killed and no agent knew, where a node lacks ranks that nobody saw end.

1. Of such a node's lines count those of killed and crashed processes that are no rank's, with the name and, where the
   line tells it, the user of the ranks that still run there, and with no memory cgroup that is none of the job's.
2. They are shown with the lacking ranks, and taken for these only where there are as many of them as ranks that lack.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from collector.align.node_facts import pids_of
from collector.align.observations import Observations
from collector.align.roster import RankView, Roster
from shared.wire.kernel_events import KernelEvent, KernelEventKind

_ENDS = frozenset({KernelEventKind.OOM_KILL, KernelEventKind.CRASH})
# Memory cgroup out of memory: Killed process 4242 (python) total-vm:9kB, …, shmem-rss:0kB, UID:1000 pgtables:956kB
_USER = re.compile(r"\bUID:(\d{1,10})\b")

_PODS = "kubepods"
"""In the path of every pod's cgroup, `/kubepods.slice/…` or `/kubepods/…`."""

REMARK = (
    "the kernel killed as many processes of that name there as ranks are missing: they are assumed to be these ranks"
)


def unseen_kills(view: RankView, observations: Observations) -> tuple[KernelEvent, ...]:
    """Return the lines of the node's kernel that may be about how a rank ended of which no process is known."""
    if not _is_lost(view):
        return ()
    here = observations.roster.by_host[view.host]
    known = {pid for other in here for pid in pids_of(other)}
    alike = {(o.process.name, o.process.uid) for o in here if not o.gone and o.process is not None}
    groups = {PurePosixPath(o.process.memory_cgroup) for o in here if o.process and o.process.memory_cgroup}
    told = [event for event in observations.facts_of(view.rank).events if event.kind in _ENDS and event.pid is not None]
    ends = [event for event in told if event.pid not in known and not _is_apart(event, groups)]
    return tuple(event for event in ends if _is_alike(event, alike))


def are_all(view: RankView, kills: Collection[KernelEvent], roster: Roster) -> bool:
    """Are there kills, and as many as ranks that lack on that node? (2)"""
    if not kills:
        return False
    lost = [other for other in roster.by_host[view.host] if _is_lost(other)]
    return len({event.pid for event in kills}) == len(lost)


def _is_lost(view: RankView) -> bool:
    return view.gone and view.host is not None and not pids_of(view) and view.unanswered is None


def _is_apart(event: KernelEvent, groups: Collection[PurePosixPath]) -> bool:
    """Was it killed in a memory cgroup that has nothing to do with those of the ranks?

    These may be one for all, one within the other, or siblings, as a scheduler makes one for each task. Of pods nothing
    shows which are of one job: each has a cgroup of its own.
    """
    if event.cgroup is None or not groups:
        return False
    its = PurePosixPath(event.cgroup)
    if any(len(group.parts) <= 1 for group in groups):
        return False  # in the root is who was put nowhere: it tells nothing of where others were
    if _PODS in event.cgroup and any(_PODS in str(group) for group in groups):
        return False
    return not any(its == group or _within(its, group) or _within(group, its) for group in groups)


def _within(inner: PurePosixPath, outer: PurePosixPath) -> bool:
    """Is it below the group or its siblings? Whatever there is lies below the root."""
    return any(len(each.parts) > 1 and inner.is_relative_to(each) for each in (outer, outer.parent))


def _is_alike(event: KernelEvent, alike: Iterable[tuple[str, int | None]]) -> bool:
    match = _USER.search(event.text)
    user = None if match is None else int(match[1])
    return any(event.name == name and (user == uid or None in (user, uid)) for name, uid in alike)
