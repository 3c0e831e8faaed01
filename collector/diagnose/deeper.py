"""Which further looks would decide what the looks so far leave open.

More time, where ranks are waited for that may only be slow; many quick samples, where a job moves and no recorder tells
who keeps it waiting; and native frames, which stop a process for about a second.
Native frames are asked only of frozen ranks whose Python stack does not say what they wait for, one per stack: a work
handle's wait, a lock in C or a backward pass leave no telling Python frame.
"""

from collections.abc import Sequence

from collector.diagnose.activity import IN_LIBRARY, Activity, activity_of
from collector.diagnose.expected import Expected
from collector.diagnose.motion import Motion, motion_of
from collector.diagnose.patterns import Doing
from collector.diagnose.roster import Presence, call_roll
from collector.diagnose.verdict import read
from shared.diagnosis import Verdict
from shared.snapshot import NodeSnapshot
from shared.stacks import Frame

MOST_DEEP_LOOKS = 8


def pids_to_look_deeper(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[tuple[str | None, int], ...]:
    """Return (host, pid) of the ranks whose native stacks would help, at most eight; often none.

    One rank stands for all that have the same Python stack; a stack that was looked at natively is not looked at again.
    Of many stacks those that fewest ranks have come first: the odd ones are the suspects.
    """
    roster = call_roll(snapshots, expected)
    motion = motion_of(roster)
    if motion.ranks(Motion.ADVANCED):
        return ()
    alike: dict[tuple[Frame, ...], list[tuple[str | None, int]]] = {}
    known: set[tuple[Frame, ...]] = set()
    for view in roster.present():
        pid = None if view.identity is None else view.identity.pid
        if pid is None or view.rank in motion.woken or view.presence is not Presence.RUNNING:
            continue
        activity = activity_of(view)
        if _unclear(activity) or view.native_stacks is not None:
            alike.setdefault(activity.frames, []).append((view.host, pid))
        if view.native_stacks is not None:
            known.add(activity.frames)
    asked = [who for frames, who in alike.items() if frames not in known]
    return tuple(who[0] for who in sorted(asked, key=len)[:MOST_DEEP_LOOKS])


def _unclear(activity: Activity) -> bool:
    """Does C code hold it that the user or an unknown library called? The name of the caller does not tell which."""
    if activity.doing is Doing.WORK:
        return True
    in_c = activity.label == IN_LIBRARY or (activity.user is not None and activity.frames[-1] == activity.user)
    return activity.doing is Doing.OUTSIDE and in_c and not activity.kernel_tells


QUICK_LOOKS = 8
QUICK_PAUSE_SECONDS = 0.1
MOST_SAMPLED_RANKS = 256
"""Many looks at a larger job would cost more than they tell."""
LONGEST_WAIT_SECONDS = 15.0


def pauses_before_further_looks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[float, ...]:
    """Return the pauses in seconds before each further look that would decide the verdict; often none."""
    reading, scene = read(snapshots, expected)
    if not scene.roster.live or len({look.taken_at_ns for look in snapshots}) < 2:
        return ()
    if reading.decided_after is not None and reading.decided_after <= LONGEST_WAIT_SECONDS:
        return (reading.decided_after + 0.5,)
    if reading.verdict is Verdict.NOT_HUNG and not scene.traces and 1 < len(scene.activities) <= MOST_SAMPLED_RANKS:
        return (QUICK_PAUSE_SECONDS,) * QUICK_LOOKS
    return ()
