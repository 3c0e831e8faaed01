"""What each rank is to the others now, in one word: by its process first, then by its stack."""

from enum import StrEnum

from collector.align.progress import ran_python
from collector.align.roster import HELD, RankView
from collector.align.stacks.activity import Activity
from collector.align.stacks.tables.row_types import Doing


class WaitState(StrEnum):
    """Does a rank wait for others?"""

    WAITING = "waiting"
    """In communication or rendezvous."""
    ON_DEVICE = "on_device"
    """It waits for whatever it has put on its device: a collective like everybody's, perhaps."""
    ELSEWHERE = "elsewhere"
    """In neither, or stopped or frozen wherever it was."""
    GONE = "gone"
    """Ended, not found, or nowhere that anybody looked."""
    UNKNOWN = "unknown"


MAY_WAIT = frozenset({WaitState.WAITING, WaitState.ON_DEVICE})


def wait_state(view: RankView, activity: Activity | None) -> WaitState:
    """Return the state of one rank, `activity` being what its stack shows, if it was seen."""
    if view.gone:
        return WaitState.GONE
    if view.presence in HELD:
        return WaitState.ELSEWHERE
    if activity is None or _may_wait_in_c(view, activity):
        return WaitState.UNKNOWN
    return shown_state(activity)


def _may_wait_in_c(view: RankView, activity: Activity) -> bool:
    """May it wait for other ranks after all, in C code that nobody has looked into, though somebody could have?

    `work.wait()` leaves no Python frame but its caller's. Of bare files nobody can know more, and native frames are
    read of main threads alone. One that has run Python meanwhile is in no such call.
    """
    live = bool(view.looks) and view.looks[-1].looked_at_ns is not None and view.apart is None
    return live and activity.is_plain and activity.in_c and not activity.c_read and not ran_python(view)


def shown_state(activity: Activity) -> WaitState:
    """Return what a stack alone shows of a process, whatever has become of it."""
    if activity.doing is Doing.UNKNOWN:
        return WaitState.UNKNOWN
    if activity.waits_for_ranks:
        return WaitState.WAITING
    return WaitState.ON_DEVICE if activity.doing is Doing.DEVICE else WaitState.ELSEWHERE
