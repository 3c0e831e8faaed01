"""What each rank is to the others now, in one word: by its process first, then by its stack."""

from enum import StrEnum

from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import Activity
from collector.align.stacks.patterns import Doing


class WaitState(StrEnum):
    """Does a rank wait for others?"""

    WAITING = "waiting"
    """In communication or rendezvous."""
    ON_DEVICE = "on_device"
    """It waits for whatever it has put on its device: a collective like everybody's, perhaps."""
    ELSEWHERE = "elsewhere"
    """In neither, or stopped by a signal wherever it was."""
    GONE = "gone"
    """Ended, not found, or nowhere that anybody looked."""
    UNKNOWN = "unknown"


MAY_WAIT = frozenset({WaitState.WAITING, WaitState.ON_DEVICE})


def wait_state(view: RankView, activity: Activity | None) -> WaitState:
    """Return the state of one rank, `activity` being what its stack shows, if it was seen."""
    if view.gone:
        return WaitState.GONE
    if view.presence is Presence.STOPPED:
        return WaitState.ELSEWHERE
    return WaitState.UNKNOWN if activity is None else shown_state(activity)


def shown_state(activity: Activity) -> WaitState:
    """Return what a stack alone shows of a process, whatever has become of it."""
    if activity.doing is Doing.UNKNOWN:
        return WaitState.UNKNOWN
    if activity.waits_for_ranks:
        return WaitState.WAITING
    return WaitState.ON_DEVICE if activity.doing is Doing.DEVICE else WaitState.ELSEWHERE
