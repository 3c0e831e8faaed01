"""What processes do that are no ranks of the job and matter to one of its ranks: by the rules of ranks (`work.py`).

Those that were started together with it and have not joined, and those to which its wait leads. Of the former, one that
waits for ranks itself has come, though nobody knows yet which rank it is: it is waited for no longer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import Activity, activity_of, other_activities
from collector.align.stacks.process_text import is_held, is_stopped
from collector.align.stacks.tables.row_types import WaitsOn
from collector.align.thresholds import MOMENT_SECONDS
from collector.align.work.children import named
from collector.align.work.values import Work
from collector.align.work.work import works_of
from shared.answer.words import WorkMeans
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child, Identity, Process, RankSnapshot
from shared.wire.stacks import Stacks


@dataclass(frozen=True)
class Bystander:
    """A process on the node of a rank to which it matters."""

    beside: int
    """That rank."""
    process: Process
    activity: Activity
    works: tuple[Work, ...]
    """As said of itself: `uses 98% of a CPU at …`."""
    compared: bool
    """Was it seen in two looks?"""
    identity: Identity | None = None
    """Which rank of another job it is, or works for."""

    @property
    def is_held(self) -> bool:
        """Does it do nothing until somebody lets it go on, or has it ended?"""
        return cannot_go_on(self.process)

    @property
    def stands_still(self) -> bool:
        """Was it seen not to work, or to sleep for long? Of many alike not each has its stack read."""
        seen = bool(self.activity.frames) or self.process.state in "DTt" or is_held(self.process)
        asleep = all(work.means is WorkMeans.SLEEP and work.amount > MOMENT_SECONDS for work in self.works)
        return self.compared and seen and asleep


def cannot_go_on(process: Process) -> bool:
    """Is a process stopped, frozen, or no more? In whatever call it is, it waits for nothing there."""
    return process.state in "TtZX" or is_held(process)


_Those = Callable[[RankSnapshot], tuple[Child, ...]]
"""Those among whom to look for a process and for what it has started."""


def siblings_of(view: RankView) -> Iterator[Bystander]:
    """Iterate over those beside a rank that have not come, by the newest look that tells of any."""
    telling = [look for look in view.looks if look.beside or isinstance(look.stacks, Stacks)]
    for child in _tops(telling[-1]) if telling else ():
        found = bystander(view, child, lambda look: look.beside)
        if not found.activity.waits_for_ranks:
            yield replace(found, works=tuple(_said_of(child, work) for work in found.works))


def bystander(view: RankView, child: Child, those: _Those) -> Bystander:
    """Return what one of `those` in the looks at a rank does."""
    own = as_rank(view, child, those)
    activity = activity_of(own)
    works = works_of(own, activity)
    seen = _that_serves(own, activity)
    return Bystander(view.rank, child.process, seen, works, compared=len(own.looks) > 1, identity=child.identity)


def _that_serves(own: RankView, main: Activity) -> Activity:
    """Return what the one thread in user code does, where the main one waits for it, or for work."""
    home = main.may_be_idle or WaitsOn.OWN_THREAD in main.waits_on
    served = (
        [each for each in other_activities(own.stacks) if each.user is not None and not each.may_be_idle]
        if home
        else []
    )
    return replace(served[0], process=main.process) if len(served) == 1 else main


def as_rank(view: RankView, child: Child, those: _Those) -> RankView:
    """Return one of `those` in the looks at a rank as if it were a rank itself, of whose record nobody has read."""
    pid = child.process.pid
    looks = tuple(_as_look(look, each, those) for look in view.looks for each in those(look) if each.process.pid == pid)
    presence = Presence.STOPPED if is_stopped(child.process) else Presence.RUNNING
    presence = presence if child.process.frozen_by is None else Presence.FROZEN
    return RankView(view.rank, presence, looks=looks, host=view.host)


def _tops(look: RankSnapshot) -> Iterator[Child]:
    """Leave out what they have started."""
    pids = {child.process.pid for child in look.beside}
    return (child for child in look.beside if child.process.parent_pid not in pids)


def _as_look(look: RankSnapshot, child: Child, those: _Those) -> RankSnapshot:
    """A look at such a process, as at a rank whose descriptors, logs and record nobody has read."""
    below: list[Child] = []
    above = {child.process.pid}
    while found := [each for each in those(look) if each.process.parent_pid in above]:
        below += found
        above = {each.process.pid for each in found}
    own = {"process": child.process, "stacks": child.stacks, "children": tuple(below), "polled_lock": None}
    watched = {"idle_for_seconds": None, "watched_for_seconds": None, "marks": None}
    return look.model_copy(update={**own, **watched, "fds": _UNREAD, "logs": _UNREAD, "recorder": _UNREAD})


_UNREAD = Missing(source="rank", reason=Reason.NOT_FOUND, detail="it is no rank of the job")


def _said_of(child: Child, work: Work) -> Work:
    what = f"waits for process {named(child.process)}, which has not joined and {work.what}"
    return replace(work, means=WorkMeans.SLEEP if work.means is WorkMeans.SLEEP else WorkMeans.SIBLING, what=what)
