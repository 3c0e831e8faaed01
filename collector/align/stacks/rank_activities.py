"""Step 8 for all ranks of a job: of thousands nearly all stand in a few places, and each place is read once."""

from collections.abc import Iterable
from dataclasses import replace

from collector.align.roster import RankView
from collector.align.stacks.activity import NOT_SEEN, Activity, from_stacks, with_lock_file, with_the_rest
from collector.align.stacks.awaited import told_by_store, unset_keys
from collector.align.stacks.lock_files import lock_of
from collector.align.stacks.seen_activity import with_awaited
from collector.align.stacks.tables.match_frames import IN_DATABASE
from collector.align.stacks.tables.row_types import Doing, WaitsOn
from shared.isolation import costs_itself
from shared.wire.snapshot import RankSnapshot


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
            read[key] = _by_stacks(view)
        if view.looks and _is_its_own(view.looks[-1]):
            found[view.rank] = _whole(read[key], view)
            continue
        process = view.process
        facts = process and (
            process.state,
            process.syscall,
            process.wchan,
            process.frozen_by,
            process.tracer_pid,
            process.lock_holders,
        )
        whole = (*key, facts, view.presence)
        if whole not in known:
            known[whole] = _whole(read[key], view)
        found[view.rank] = known[whole]
    return found


def _is_its_own(look: RankSnapshot) -> bool:
    """Does it tell of more than stacks and the kernel do, which many ranks share?"""
    return bool(look.children or look.awaited) or look.polled_lock is not None


@costs_itself(lambda view: NOT_SEEN, part="what stacks show")
def _by_stacks(view: RankView) -> Activity:
    return from_stacks(view)


@costs_itself(lambda seen, view: seen, part="what the kernel shows of a rank")
def _whole(seen: Activity, view: RankView) -> Activity:
    return with_the_rest(seen, view)


@costs_itself(lambda activities, views: activities)
def spread_native(activities: dict[int, Activity], views: dict[int, RankView]) -> dict[int, Activity]:
    """Let ranks share what the native stack of one of them told: only one of each Python stack is looked at so.

    Which lock one waits for is its own, and that others are in SQLite, too, does not show that they wait for any.
    """
    told = {
        activities[rank].frames: activities[rank]
        for rank in activities
        if views[rank].native_stacks is not None and activities[rank].frames
    }
    return {
        rank: _shared(activity, known, views[rank])
        if (known := told.get(activity.frames)) is not None and activity.doing in (Doing.OUTSIDE, Doing.WORK)
        else activity
        for rank, activity in activities.items()
    }


@costs_itself(lambda activities, views: activities)
def told_by_stores(activities: dict[int, Activity], views: dict[int, RankView]) -> dict[int, Activity]:
    """Say of keys that ranks wait for that nobody has set them, where the store's own process shows that."""
    unset = unset_keys(views.values())
    return {
        rank: activity
        if activity.awaited is None or not activity.awaited.in_store
        else with_awaited(activity, told_by_store(activity.awaited, unset))
        for rank, activity in activities.items()
    }


def _shared(activity: Activity, known: Activity, view: RankView) -> Activity:
    database = WaitsOn.DATABASE in known.waits_on
    shared = replace(
        activity,
        doing=known.doing,
        cause=known.cause,
        label=IN_DATABASE if database else known.label,
        told=known.told,
        waits_on=frozenset({WaitsOn.DATABASE}) if database else known.waits_on,
        c_read=known.c_read,
    )
    return with_lock_file(shared, lock_of(view.looks[-1])) if database and view.looks else shared
