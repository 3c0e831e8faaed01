"""Step 8 for all ranks of a job: of thousands nearly all stand in a few places, and each place is read once."""

from collections.abc import Iterable
from dataclasses import replace

from collector.align.roster import RankView
from collector.align.stacks.activity import Activity, from_stacks, with_the_rest
from collector.align.stacks.patterns import Doing


def activities_of(views: Iterable[RankView]) -> dict[int, Activity]:
    """Return what each rank is doing now. Ranks that share one value of stacks, as after a survey, are read once.

    And those of which the kernel tells the same: of thousands nearly all stand in a few places.
    """
    read: dict[tuple[int, int], Activity] = {}
    known: dict[tuple[object, ...], Activity] = {}
    found = {}
    for view in views:
        key = id(view.stacks), id(view.native_stacks)
        if key not in read:
            read[key] = from_stacks(view)
        if view.looks and (view.looks[-1].children or view.looks[-1].polled_lock is not None):
            found[view.rank] = with_the_rest(read[key], view)
            continue
        process = view.process
        facts = process and (process.state, process.syscall, process.wchan, process.tracer_pid)
        whole = (*key, facts, view.presence)
        if whole not in known:
            known[whole] = with_the_rest(read[key], view)
        found[view.rank] = known[whole]
    return found


def spread_native(activities: dict[int, Activity], views: dict[int, RankView]) -> dict[int, Activity]:
    """Let ranks share what the native stack of one of them told: only one of each Python stack is looked at so."""
    told = {
        activities[rank].frames: activities[rank]
        for rank in activities
        if views[rank].native_stacks is not None and activities[rank].frames
    }
    return {
        rank: replace(
            activity,
            doing=known.doing,
            cause=known.cause,
            label=known.label,
            told=known.told,
            waits_on=known.waits_on,
            c_read=known.c_read,
        )
        if (known := told.get(activity.frames)) is not None and activity.doing in (Doing.OUTSIDE, Doing.WORK)
        else activity
        for rank, activity in activities.items()
    }
