"""Barriers of multiprocessing that ranks of one node meet at: who alone has not come, as the others' memory tells.

A barrier knows how many meet there, not which. Where all ranks of a node but one stand at a barrier for as many as
they are, and nobody else has come, it is for that one.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from collector.align.roster import RankView
from collector.align.stacks.activity import Activity
from collector.align.stacks.tables.row_types import Doing
from shared.answer.words import Cause
from shared.isolation import costs_itself

_OP = "multiprocessing.Barrier"
Barrier = tuple[str | None, str]
"""Its node, and the memory there."""


def barrier_of(view: RankView, activity: Activity) -> Barrier | None:
    """Return the barrier at which a rank waits."""
    shared = activity.shared
    return None if shared is None or shared.kind != "barrier" or not shared.memory else (view.host, shared.memory)


def last_to_come(activities: Mapping[int, Activity], views: Mapping[int, RankView]) -> dict[Barrier, int]:
    """Return the rank that each of these barriers lacks."""
    waiting: dict[Barrier, list[int]] = defaultdict(list)
    on_node: dict[str | None, set[int]] = defaultdict(set)
    for rank, activity in activities.items():
        on_node[views[rank].host].add(rank)
        if (barrier := barrier_of(views[rank], activity)) is not None:
            waiting[barrier].append(rank)
    found = {}
    for barrier, ranks in waiting.items():
        counts = {(at.come, at.parties) for rank in ranks if (at := activities[rank].shared) is not None}
        missing = on_node[barrier[0]] - {*ranks}
        if len(ranks) > 1 and len(missing) == 1 and counts == {(len(ranks), len(ranks) + 1)}:
            found[barrier] = missing.pop()
    return found


@costs_itself(lambda activities, views: activities)
def met_at_barriers(activities: dict[int, Activity], views: dict[int, RankView]) -> dict[int, Activity]:
    """Say of ranks that wait for one of their own at a barrier that they are in an operation of all of them."""
    lacking = last_to_come(activities, views)
    return {
        rank: replace(activity, doing=Doing.COLLECTIVE, cause=Cause.COMMUNICATION, op=_OP, may_pass=False)
        if barrier_of(views[rank], activity) in lacking
        else activity
        for rank, activity in activities.items()
    }
