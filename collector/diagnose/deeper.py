"""Whom to look at again with native frames, which stops a process for about a second.

Only frozen ranks whose Python stack does not say what they wait for, one per stack: a work handle's wait, a lock in C or a
backward pass leave no telling Python frame.
"""

from collections.abc import Sequence

from collector.diagnose.activity import ASLEEP, Activity, activity_of
from collector.diagnose.expected import Expected
from collector.diagnose.motion import Motion, motion_of
from collector.diagnose.patterns import Doing
from collector.diagnose.roster import Presence, call_roll
from shared.diagnosis import Cause
from shared.snapshot import NodeSnapshot
from shared.stacks import Frame

MOST_DEEP_LOOKS = 8


def pids_to_look_deeper(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[tuple[str | None, int], ...]:
    """Return (host, pid) of the ranks whose native stacks would help, at most eight; often none."""
    roster = call_roll(snapshots, expected)
    motion = motion_of(roster)
    if motion.ranks(Motion.ADVANCED):
        return ()
    asked: dict[tuple[Frame, ...], tuple[str | None, int]] = {}
    for view in roster.present():
        pid = None if view.identity is None else view.identity.pid
        if pid is None or view.rank in motion.woken or view.presence is not Presence.RUNNING:
            continue
        activity = activity_of(view)
        if _unclear(activity) and view.native_stacks is None:
            asked.setdefault(activity.frames, (view.host, pid))
    return tuple(asked.values())[:MOST_DEEP_LOOKS]


def _unclear(activity: Activity) -> bool:
    if activity.doing is Doing.WORK:
        return True
    return (
        activity.doing is Doing.OUTSIDE
        and activity.cause in (Cause.USER_CODE, Cause.UNKNOWN)
        and bool(activity.frames)
        and activity.label != ASLEEP
    )
