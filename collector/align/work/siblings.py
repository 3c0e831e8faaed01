"""What those do that were started together with a rank and have not joined: by the rules of ranks (`work.py`).

One that waits for ranks itself has come, though nobody knows yet which rank it is: it is waited for no longer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import Activity, activity_of
from collector.align.stacks.process_text import is_held, is_stopped
from collector.align.thresholds import MOMENT_SECONDS
from collector.align.work.children import named
from collector.align.work.values import Work
from collector.align.work.work import works_of
from shared.answer.words import WorkMeans
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child, Process, RankSnapshot
from shared.wire.stacks import Stacks


@dataclass(frozen=True)
class Sibling:
    """A process that may be a rank which others wait for."""

    beside: int
    """The rank that it was started with."""
    process: Process
    activity: Activity
    works: tuple[Work, ...]
    """As said of that rank: `waits for process 19 (python), which has not joined and uses …`."""
    compared: bool
    """Was it seen in two looks?"""

    @property
    def stands_still(self) -> bool:
        """Was it seen not to work, or to sleep for long? Of many alike not each has its stack read."""
        seen = bool(self.activity.frames) or self.process.state in "DTt" or is_held(self.process)
        asleep = all(work.means is WorkMeans.SLEEP and work.amount > MOMENT_SECONDS for work in self.works)
        return self.compared and seen and asleep


def siblings_of(view: RankView) -> Iterator[Sibling]:
    """Iterate over those beside a rank that have not come, by the newest look that tells of any."""
    telling = [look for look in view.looks if look.beside or isinstance(look.stacks, Stacks)]
    for child in _tops(telling[-1]) if telling else ():
        own = as_rank(view, child, [(look, look.beside) for look in telling])
        activity = activity_of(own)
        if not activity.waits_for_ranks:
            works = tuple(_said_of(child, work) for work in works_of(own, activity))
            yield Sibling(view.rank, child.process, activity, works, compared=len(own.looks) > 1)


def as_rank(view: RankView, child: Child, among: Iterable[tuple[RankSnapshot, Sequence[Child]]]) -> RankView:
    """Return a process that is none as if it were one; `among`: those with which each look at the rank shows it."""
    pid = child.process.pid
    looks = tuple(_as_look(look, each, near) for look, near in among for each in near if each.process.pid == pid)
    presence = Presence.STOPPED if is_stopped(child.process) else Presence.RUNNING
    presence = presence if child.process.frozen_by is None else Presence.FROZEN
    return RankView(view.rank, presence, looks=looks, host=view.host)


def _tops(look: RankSnapshot) -> Iterator[Child]:
    """Leave out what they have started."""
    pids = {child.process.pid for child in look.beside}
    return (child for child in look.beside if child.process.parent_pid not in pids)


def _as_look(look: RankSnapshot, child: Child, near: Sequence[Child]) -> RankSnapshot:
    """A look at such a process, as at a rank whose descriptors, logs and record nobody has read."""
    below: list[Child] = []
    above = {child.process.pid}
    while found := [each for each in near if each.process.parent_pid in above]:
        below += found
        above = {each.process.pid for each in found}
    own = {"process": child.process, "stacks": child.stacks, "children": tuple(below), "polled_lock": None}
    watched = {"idle_for_seconds": None, "watched_for_seconds": None, "marks": None}
    return look.model_copy(update={**own, **watched, "fds": _UNREAD, "logs": _UNREAD, "recorder": _UNREAD})


_UNREAD = Missing(source="rank", reason=Reason.NOT_FOUND, detail="it is no rank yet")


def _said_of(child: Child, work: Work) -> Work:
    what = f"waits for process {named(child.process)}, which has not joined and {work.what}"
    return replace(work, means=WorkMeans.SLEEP if work.means is WorkMeans.SLEEP else WorkMeans.SIBLING, what=what)
