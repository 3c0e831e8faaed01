"""Step 2 of the verdict: did anything move?

A rank has *advanced* when its recorder shows new or newly finished operations between two looks. It is *busy*
when it did not advance but its stack changed or it used CPU time, and *frozen* when neither; what a wait burns is no
sign (stacks/polls.py). Whether a pause is a hang is judged by the job's own rhythm: the stall since the last operation
of any rank against the longest usual gap between operations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from operator import sub

from collector.align.roster import RankView, Roster
from collector.align.stacks.activity import Activity
from collector.align.stacks.lock_files import polls_database, polls_lock_file
from collector.align.stacks.polls import in_remote_call, polling, serves, serves_on, stands_at_one_place
from collector.align.stacks.tables.row_types import Doing
from collector.align.thresholds import (
    BUSY_GAPS,
    BUSY_SECONDS,
    FROZEN_GAPS,
    FROZEN_SECONDS,
    LEAST_SEEN_SHARE,
    WATCH_SECONDS,
)
from collector.align.work.beats import (
    Beats,
    at_work,
    at_work_within,
    beats_between,
    beats_within,
    main_switched,
    main_switched_within,
    moved_bytes,
    often,
    seconds_of,
    spins,
)
from shared.missing import Missing
from shared.wire.snapshot import Process, RankSnapshot
from shared.wire.stacks import Stacks, Thread
from shared.wire.trace import State, Trace

_MOST_FOR_RHYTHM = 1024
"""Ranks whose records tell a job's rhythm: of a larger job some, which step as the others do."""


class Motion(StrEnum):
    ADVANCED = "advanced"
    BUSY = "busy"
    FROZEN = "frozen"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobMotion:
    """What moved between the first and the last look."""

    by_rank: dict[int, Motion]
    seconds: float
    """Between the looks; 0 with fewer than two."""
    stalled_seconds: float | None
    """Since the newest operation of any rank was issued; None: no recorder says."""
    usual_gap_seconds: float | None
    """The longest usual pause between two operations of one rank; None: too few records."""
    woken: frozenset[int] = frozenset()
    """Ranks whose main thread changed its stack or slept anew: CPU time alone may be a waiter that spins."""
    still_seconds: Mapping[int, float] = field(default_factory=dict)
    """How long each rank is not known to have moved, by looks and by whoever watched between them."""
    carrying: frozenset[int] = frozenset()
    """Ranks that read or wrote much: a waiter that does has data on its way."""
    compared_seconds: Mapping[int, float] = field(default_factory=dict)
    """For how much of the time from its first look to its last each rank's counters tell of."""
    between_files: frozenset[int] = frozenset()
    """Ranks that moved between the last two of their dumps, where these are bare files: they may hang since."""
    idle_seconds: Mapping[int, float] = field(default_factory=dict)
    """How long the agent had seen each rank stand still before the first look, where it was there to see it."""

    def ranks(self, motion: Motion) -> tuple[int, ...]:
        return tuple(rank for rank, what in self.by_rank.items() if what is motion)

    def stall(self, waiters: Iterable[int], *, recorded: bool = True) -> float:
        """Seconds that the job has stood still: since the newest operation, else at least since the first look.

        `recorded`: would an operation of those who wait have been recorded?
        """
        if recorded and self.stalled_seconds is not None:
            return self.stalled_seconds
        waiting = set(waiters)
        watched = min((self.idle_seconds[rank] for rank in waiting if rank in self.idle_seconds), default=0.0)
        still = max((self.still_seconds[rank] for rank in waiting if rank in self.still_seconds), default=self.seconds)
        return 0.0 if self.woken & waiting else max(still, watched)

    def needed(self, *, busy: bool, at_once: bool = False) -> float:
        """Seconds of standing still that the job's own rhythm does not explain; `at_once`: what is seen cannot pass."""
        usual = self.usual_gap_seconds or 0.0
        if busy:
            return max(BUSY_SECONDS, BUSY_GAPS * usual)
        return 0.0 if at_once else max(FROZEN_SECONDS, FROZEN_GAPS * usual)


def motion_of(roster: Roster, activities: Mapping[int, Activity]) -> JobMotion:
    """Compare each rank's first look with its last, and the job's stall with its rhythm; `activities`: by all looks."""
    launched = roster.ras.advanced if roster.ras is not None else frozenset()
    present = roster.present()
    again = [view for view in present if len(view.looks) > 1]
    traced = [view for view in present if view.trace is not None and len(view.trace)]
    stalls = [stall for stall in map(_stall, traced if roster.live else ()) if stall is not None]
    telling = traced[:: 1 + len(traced) // _MOST_FOR_RHYTHM]
    gaps = [gap for gap in (_usual_gap(view.trace) for view in telling if view.trace is not None) if gap is not None]
    moved = {v.rank: rank_motion(v, activities.get(v.rank)) for v in present} if roster.live else {}
    return JobMotion(
        by_rank={v.rank: Motion.ADVANCED if v.rank in launched else moved.get(v.rank, Motion.UNKNOWN) for v in present},
        between_files=frozenset(v.rank for v in again if not roster.live and _moved_at_last(v)),
        seconds=max(map(_seconds_between, again), default=0.0),
        stalled_seconds=min(stalls, default=None),
        usual_gap_seconds=max(gaps, default=None),
        idle_seconds={
            view.rank: view.looks[0].idle_for_seconds
            for view in present
            if view.looks and view.looks[0].idle_for_seconds is not None
        },
        woken=frozenset(view.rank for view in again if _woke(view, activities.get(view.rank))),
        still_seconds={view.rank: _still_seconds(view, activities.get(view.rank)) for view in again},
        compared_seconds={view.rank: seconds for view in again if (seconds := _compared_seconds(view))},
        carrying=frozenset(view.rank for view in again if any(moved_bytes(*beats) for beats in _beats_of(view))),
    )


def _seconds_between(view: RankView) -> float:
    """Of looks that were too late for everything nothing is known but when they began."""
    read = [
        look
        for look in view.looks
        if any(not isinstance(each, Missing) for each in (look.process, look.stacks, look.recorder))
    ]
    times = [look.looked_at_ns for look in read if look.looked_at_ns is not None]
    return (max(times) - min(times)) / 1e9 if times else 0.0


def rank_motion(view: RankView, activity: Activity | None) -> Motion:
    marks = [marks for marks in map(_progress, view.looks) if marks is not None]
    if any(a != b for a, b in pairwise(marks)):
        return Motion.ADVANCED
    pairs = tuple(pairwise(view.looks))
    signs = [sign for a, b in pairs for sign in (_stack_changed(view, a, b), _worked(view, activity, a, b))]
    within = [_worked_within(view, activity, look) for look in view.looks]
    if True in (*signs, *within) or _wants_cpu(view, activity):
        return Motion.FROZEN if _only_polls(view) else Motion.BUSY
    if len(view.looks) < 2:  # who watches sees the main thread
        return Motion.UNKNOWN if activity is not None and activity.runs_call else _watched_motion(view)
    hardly_seen = 0.0 < _compared_seconds(view) < LEAST_SEEN_SHARE * _seconds_between(view)
    still = False in (*signs, *within) and not hardly_seen
    return Motion.FROZEN if still else Motion.UNKNOWN


def _watched_motion(view: RankView) -> Motion:
    """What an agent that watches has seen before its one look; that a rank moved may have been a waiter that spins."""
    idle = view.looks[0].idle_for_seconds if view.looks else None
    return Motion.FROZEN if idle is not None and idle >= FROZEN_SECONDS else Motion.UNKNOWN


def _compared_seconds(view: RankView) -> float:
    within = sum(seconds_of(beats_within(look.process)) for look in view.looks)
    return within + sum(map(seconds_of, _beats_of(view)))


def _wants_cpu(view: RankView, activity: Activity | None) -> bool:
    """Was its main thread runnable in the last two looks, and in no wait? Then it runs, whatever share it gets."""
    if activity is None or activity.waits_for_ranks or activity.doing is Doing.DEVICE:
        return False
    return view.apart is None and runnable(view)


def runnable(view: RankView) -> bool:
    """Was the main thread of a rank on a CPU, or on the queue for one, in each of its last two looks?"""
    last = [look.process for look in view.looks[-2:]]
    return len(last) == 2 and all(isinstance(process, Process) and process.state == "R" for process in last)


def _worked_within(view: RankView, activity: Activity | None, look: RankSnapshot) -> bool | None:
    """Did the rank or one of its children work while it was looked at? Of who serves calls little is seen so."""
    children = (at_work(beats_within(child.process)) for child in look.children)
    own = at_work_within(look, burns=polling(view, activity, look, look).cpu)
    apart = view.apart is not None or (activity is not None and in_remote_call(activity))
    ran = _stack_changed(view, look, look) or serves(look)
    return _any_known((own or (None if apart else own), ran or None, _switched_within(view, activity, look), *children))


def _switched_within(view: RankView, activity: Activity | None, look: RankSnapshot) -> bool | None:
    if view.apart is not None or view.idles or polling(view, activity, look, look).wakes:
        return None
    return main_switched_within(look, polls=activity is None or not in_remote_call(activity))


def _progress(look: RankSnapshot) -> object:
    """The newest operation's time, or its group's counters, and the number of unfinished ones: all stand still."""
    trace = look.recorder
    if not isinstance(trace, Trace):
        return None
    counters = {trace.groups[mark.group]: mark.model_copy(update={"group": 0}) for mark in trace.marks}
    newest = max(trace.created_ns, default=0) if trace.is_recorded else counters
    return newest, len(trace.state) - trace.state.count(State.COMPLETED)


def _moved_at_last(view: RankView) -> bool:
    before, last = (_progress(look) for look in view.looks[-2:])
    return before is not None and last is not None and before != last


def _threads(view: RankView, a: RankSnapshot, b: RankSnapshot) -> tuple[Thread, Thread] | None:
    """The thread that stands for the rank, in two looks that can be compared."""
    if not isinstance(a.stacks, Stacks) or not isinstance(b.stacks, Stacks) or a.stacks.native != b.stacks.native:
        return None
    first, second = view.thread_in(a.stacks), view.thread_in(b.stacks)
    return None if first is None or second is None else (first, second)


def _stack_changed(view: RankView, a: RankSnapshot, b: RankSnapshot) -> bool | None:
    threads = _threads(view, a, b)
    if threads is None or not isinstance(a.stacks, Stacks) or not isinstance(b.stacks, Stacks):
        return None
    moves = any(thread.moves for thread in threads) and not (view.idles and view.apart is None)
    return moves or a.stacks.stack(threads[0]) != b.stacks.stack(threads[1])


def ran_python(view: RankView) -> bool:
    """Was the thread that stands for a rank at another place of its program in one look than in the one before?"""
    return any(_stack_changed(view, a, b) for a, b in pairwise(view.looks))


def _worked(view: RankView, activity: Activity | None, a: RankSnapshot, b: RankSnapshot) -> bool | None:
    """Did the rank or one of its children work between two looks?"""
    later = {child.process.pid: child.process for child in b.children}
    children = (
        sign(beats_between(child.process, later[child.process.pid]))
        for child in a.children
        for sign in (at_work, main_switched)
        if child.process.pid in later
    )
    burns = polling(view, activity, a, b).cpu
    own = at_work(beats_between(a.process, b.process), burns=burns)
    return _any_known((own, _switched(view, activity, a, b), *children))


def _only_polls(view: RankView) -> bool:
    """Does it wake for nothing but to ask whether a lock file is still there, and does nothing it started work?"""
    polls = all(map(polls_lock_file, view.looks)) or polls_database(view.looks)
    return polls and not any(at_work(beats) for beats in _beats_of(view))


def _woke(view: RankView, activity: Activity | None) -> bool:
    if activity is not None and _counts_one_wait(view, activity):
        return False
    moved = any(_stack_changed(view, a, b) or _switched(view, activity, a, b) for a, b in pairwise(view.looks))
    within = any(_switched_within(view, activity, look) for look in view.looks)
    return (moved or within) and not _only_polls(view)


def _counts_one_wait(view: RankView, activity: Activity) -> bool:
    """Has it waited for others at one place in all looks, and its groups counted nothing new? It polls, then."""
    counts = all(isinstance(look.recorder, Trace) and not look.recorder.is_recorded for look in view.looks)
    if not counts or not activity.waits_for_ranks or any(_progress(a) != _progress(b) for a, b in pairwise(view.looks)):
        return False
    return stands_at_one_place(view, activity)


def _still_seconds(view: RankView, activity: Activity | None) -> float:
    """Return how long a rank has stood still at the last look: a few steps between two looks leave few traces.

    Who watched between the looks tells, too, but of the main thread. One that uses CPU time may be a waiter that spins,
    one that polls a lock file wakes for that alone, and where another thread trains it says nothing.
    """
    still = 0.0
    for a, b in reversed(tuple(pairwise(view.looks))):
        apart, idle = _apart(a, b), b.idle_for_seconds
        burns = spins(beats_between(a.process, b.process)) or polling(view, activity, a, b).wakes
        moved = idle is not None and idle < apart and _was_seen_moving(b) and not burns
        if idle is not None and moved and view.apart is None and not _only_polls(view):
            return still + idle
        still += apart
    return still


def _was_seen_moving(look: RankSnapshot) -> bool:
    idle, watched = look.idle_for_seconds, look.watched_for_seconds
    return idle is not None and watched is not None and idle + WATCH_SECONDS < watched


def _apart(a: RankSnapshot, b: RankSnapshot) -> float:
    if a.looked_at_ns is None or b.looked_at_ns is None:
        return 0.0
    return max(0.0, (b.looked_at_ns - a.looked_at_ns) / 1e9)


def _any_known(signs: Iterable[bool | None]) -> bool | None:
    known = [sign for sign in signs if sign is not None]
    return any(known) if known else None


def _beats_of(view: RankView) -> list[Beats]:
    """Of each pair of neighbouring looks that can be compared."""
    found = (beats_between(a.process, b.process) for a, b in pairwise(view.looks))
    return [beats for beats in found if beats is not None]


def _switched(view: RankView, activity: Activity | None, a: RankSnapshot, b: RankSnapshot) -> bool | None:
    """Did the thread that stands for a rank wake between two looks, and not only to ask whether its wait is over?"""
    if polling(view, activity, a, b).wakes:
        return False
    calls = activity is not None and in_remote_call(activity)
    if calls and serves_on(a, b):
        return True
    if view.apart is None:
        return None if view.idles else main_switched(beats_between(a.process, b.process), polls=not calls)
    threads = _threads(view, a, b)
    if threads is None or a.looked_at_ns is None or b.looked_at_ns is None:
        return None
    before, after = (thread.switches for thread in threads)
    return often(before, after, (b.looked_at_ns - a.looked_at_ns) / 1e9 if not calls else 0.0)


def _stall(view: RankView) -> float | None:
    """Seconds from its newest operation to the look that gave its record: what came after that is not known.

    Unless the agent has seen it stand still from that look on to the last one.
    """
    telling = [look.looked_at_ns for look in view.looks if isinstance(look.recorder, Trace)]
    looked, newest = next(reversed(telling), None), view.newest_ns
    last, idle = (view.looks[-1].looked_at_ns, view.looks[-1].idle_for_seconds) if view.looks else (None, None)
    if looked is None or last is None or newest == 0:
        return None
    stood_still = idle is not None and view.apart is None and idle >= (last - looked) / 1e9
    return max(0.0, ((last if stood_still else looked) - newest) / 1e9)


def _usual_gap(trace: Trace) -> float | None:
    """The longest gap between successive operations in seconds, leaving out one outlier such as a warm-up."""
    times = sorted(filter(None, trace.created_ns)) if trace.is_recorded else ()
    gaps: list[int] = sorted(map(sub, times[1:], times))
    if not gaps:
        return None
    return (gaps[-2] if len(gaps) >= 8 else gaps[-1]) / 1e9
