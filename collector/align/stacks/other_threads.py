"""Step 10: a rank that waits for a thread of its own does not show that thread; here the others are looked through.

1. Asked only where what stands for the rank is its main thread, and that waits for a lock, a condition, a future or
   the end of a thread.
2. Threads that run the user's code may be the one. Those that wait for work, and those of libraries alone, are not.
3. A future is filled by a thread of a pool: where there are such among them, they alone are told.
4. Whose end it waits for its Python's memory tells, where that was read.

Else no stack says which of them it is, so it is told as what it is: where they are, and that it may be one of them.

So are processes that a rank has started which waits for others to come: Lightning's rank 0 starts them itself, and who
has not come yet is not known as a rank.
"""

import re
from collections.abc import Iterable

from collector.align.roster import RankView
from collector.align.stacks.activity import Activity, blocked_children, other_activities, place
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from shared.answer.diagnosis import StackEvidence

_MOST_TOLD = 4
# result (concurrent/futures/_base.py:451); wait (concurrent/futures/_base.py:305)
_FUTURES = re.compile(r"(^|/)concurrent/futures/_base\.py$")
# _worker (concurrent/futures/thread.py:83)
_POOL = re.compile(r"(^|/)concurrent/futures/thread\.py$")


def threads_it_may_wait_for(view: RankView, seen: Activity) -> tuple[Activity, ...]:
    """Return what those threads of a rank do that its main thread may wait for, by name; none where it does not."""
    stacks = view.stacks
    waits = seen.doing is Doing.OUTSIDE and not seen.waits_on.isdisjoint((WaitsOn.OWN_THREAD, WaitsOn.LOCK))
    if stacks is None or stacks.main is None or not waits or seen.frames != stacks.stack(stacks.main):  # 1
        return ()
    found = [each for each in other_activities(stacks) if each.user is not None and not each.may_be_idle]  # 2
    if any(_FUTURES.search(frame.file) for frame in seen.frames):  # 3
        found = [each for each in found if any(_POOL.search(frame.file) for frame in each.frames)] or found
    ends = _named(seen)  # 4
    found = [each for each in found if each.thread == ends] or found
    return tuple(sorted(found, key=lambda each: (each.thread, each.frames)))


def _named(seen: Activity) -> str | None:
    joined = None if seen.awaited is None else seen.awaited.awaited.thread
    return None if joined is None else joined.name


def thread_evidence(view: RankView, seen: Activity) -> Iterable[StackEvidence]:
    """Tell where these threads are; of many, the first few."""
    found = threads_it_may_wait_for(view, seen)
    known = len(found) == 1 and found[0].thread == _named(seen)
    which = "is the one" if known else "may be the one" if len(found) == 1 else f"may be one of {len(found)}"
    for each in found[:_MOST_TOLD]:
        doing = "waiting for another thread" if WaitsOn.OWN_THREAD in each.waits_on else each.label
        text = (
            f"thread {each.thread} of rank {view.rank}, which {which} that it waits for, is {doing}, at {_place(each)}"
        )
        yield StackEvidence(
            ranks=str(view.rank), text=text, thread=each.thread, frames=tuple(place(frame) for frame in each.frames)
        )


def child_evidence(view: RankView) -> Iterable[StackEvidence]:
    """Tell where processes are that a rank has started; of many, the first few."""
    children = view.looks[-1].children if view.looks else ()
    for child, doing in blocked_children(children)[:_MOST_TOLD]:
        at = place(doing.frames[-1]) if doing.user is None and doing.frames else _place(doing)
        text = f"process {child.process.pid}, which rank {view.rank} has started, is {doing.label}, at {at}"
        yield StackEvidence(
            ranks=str(view.rank), text=text, thread=doing.thread, frames=tuple(place(frame) for frame in doing.frames)
        )


def _place(seen: Activity) -> str:
    """Name the innermost frame of the user's own."""
    return "" if seen.user is None else str(place(seen.user))
