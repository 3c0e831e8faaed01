"""Which thread stands for a rank: the one that trains, and that need not be the main thread.

Ray, Spark and notebooks run the training loop in a thread, under a main thread that waits for requests or looks at the
time. What such a main thread does tells nothing of the job, neither a hang nor progress.

1. The main thread, where it waits for other ranks, or works.
2. Where it waits in a backward pass, the thread of autograd that runs a hook of it, if there is one: C++ has started
   that, so nothing of Python's `threading` is at its foot.
3. Where it waits for other ranks, a thread that runs another rank's remote procedure call, if that does not wait for
   others in turn.
4. Where it is at home, another thread of the rank that waits for other ranks, for its device, which may lack what they
   have not launched, or for a child process that waits for them. At home is: waiting for work, for a thread of its own,
   for a signal, or, if no main thread of the job waits for other ranks, asleep at the same place as all others'.
5. Where it is at home and no such thread waits, the thread that began as those do which wait on other ranks: the loop
   is the same program everywhere. One that has nothing but the standard library in common with them is not it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice, takewhile

from collector.align.roster import RankView
from collector.align.stacks.activity import Activity, activity_of_thread, runs_call, waits_by_child, waits_for_thread
from collector.align.stacks.tables.kernel_facts import WAITS_FOR_SIGNAL
from collector.align.stacks.tables.row_types import WAITS_FOR_RANKS, Doing, WaitsOn
from collector.align.stacks.user_frames import is_standard_frame
from shared.isolation import costs_itself
from shared.wire.stacks import Frame, Stacks, Thread

_Stack = tuple[Frame, ...]
_BEGUN_BY_PYTHON = ("_bootstrap", "Thread._bootstrap")
_BACKWARD = "_engine_run_backward"
_ASLEEP = frozenset({"nanosleep", "clock_nanosleep"})
_MOST_THREADS = 256
_MOST_BEGINNINGS = 16
"""Of a rank's threads, and of stacks of those that wait, whose number is the job's to choose."""


@costs_itself(lambda views: dict(views))
def with_telling_threads(views: Mapping[int, RankView]) -> dict[int, RankView]:
    """Note of each rank which thread stands for it, where that is not the main one."""
    read = _Reader()
    mains = {rank: main for rank, view in views.items() if (main := read.main(view.stacks)) is not None}
    home = {rank for rank, main in mains.items() if _is_at_home(main) or _is_in(WAITS_FOR_SIGNAL, views[rank])}
    if _all_sleep_alike(mains, views):
        home = set(mains)
    told: dict[int, Thread] = {}
    for rank, main in mains.items():
        stacks = views[rank].stacks
        thread = read.waiting(stacks) or _for_child(views[rank]) if rank in home else read.working_for(stacks, main)
        if thread is not None:
            told[rank] = thread
    begun = sorted({_stack(views[rank], thread) for rank, thread in told.items() if rank in home})[:_MOST_BEGINNINGS]
    for rank in home - told.keys() if begun else ():
        thread = _that_began_alike(views[rank].stacks, begun)
        if thread is not None:
            told[rank] = thread
    idle = {rank for rank, main in mains.items() if rank in home and main.waits_for_others}
    return {
        rank: replace(view, apart=told.get(rank), idles=rank in idle) if rank in told or rank in idle else view
        for rank, view in views.items()
    }


class _Reader:
    """Reads each value of stacks once, and each stack: of thousands of main threads nearly all stand in a few places.

    Stacks are told apart by identity: the views of the ranks keep them alive for as long as this lives.
    """

    def __init__(self) -> None:
        self._mains: dict[_Stack, Activity] = {}
        self._main: dict[int, Activity | None] = {}
        self._waiting: dict[int, Thread | None] = {}
        self._working: dict[int, Thread | None] = {}

    def main(self, stacks: Stacks | None) -> Activity | None:
        """Return what the main thread does."""
        if stacks is None:
            return None
        if id(stacks) not in self._main:  # after a survey, thousands of ranks share one value of stacks
            self._main[id(stacks)] = self._read_main(stacks)
        return self._main[id(stacks)]

    def _read_main(self, stacks: Stacks) -> Activity | None:
        main = stacks.main
        if main is None:
            return None
        frames = stacks.stack(main)
        if frames not in self._mains:
            self._mains[frames] = activity_of_thread(stacks, main)
        return self._mains[frames]

    def working_for(self, stacks: Stacks | None, main: Activity) -> Thread | None:
        """Return the thread that works while the main one waits: in a backward pass, or for another rank."""
        if stacks is None:
            return None
        if id(stacks) not in self._working:
            self._working[id(stacks)] = _of_autograd(stacks, main) or _of_call(stacks, main)
        return self._working[id(stacks)]

    def waiting(self, stacks: Stacks | None) -> Thread | None:
        """Return the thread beside the main one that waits for other ranks, in an operation first, or a device."""
        if stacks is None:
            return None
        if id(stacks) not in self._waiting:
            seen = [(activity_of_thread(stacks, thread).doing, thread) for thread in _others(stacks)]
            found = [thread for doing, thread in seen if doing in (Doing.COLLECTIVE, Doing.P2P)]
            found += [thread for doing, thread in seen if doing in WAITS_FOR_RANKS]
            found += [thread for doing, thread in seen if doing is Doing.DEVICE]
            self._waiting[id(stacks)] = next(iter(found), None)
        return self._waiting[id(stacks)]


def _others(stacks: Stacks) -> Iterable[Thread]:
    threads = islice(stacks.threads, _MOST_THREADS)
    return (thread for thread in threads if thread is not stacks.main and thread.frames)


def _is_at_home(main: Activity) -> bool:
    return not main.waits_for_ranks and (main.waits_for_others or waits_for_thread(main))


def _all_sleep_alike(mains: Mapping[int, Activity], views: Mapping[int, RankView]) -> bool:
    if len(mains) < 2 or any(main.waits_for_ranks for main in mains.values()):
        return False
    asleep = all(_is_in(_ASLEEP, views[rank]) for rank in mains)
    return asleep and len({main.frames for main in mains.values()}) == 1


def _is_in(syscalls: frozenset[str], view: RankView) -> bool:
    """Is the main thread in one of these system calls?"""
    process = view.process
    return process is not None and process.syscall is not None and process.syscall.name in syscalls


def _of_autograd(stacks: Stacks, main: Activity) -> Thread | None:
    if not main.frames or main.frames[-1].function != _BACKWARD:
        return None
    begun_in_c = (t for t in _others(stacks) if stacks.stack(t)[0].function not in _BEGUN_BY_PYTHON)
    return next(begun_in_c, None)


def _of_call(stacks: Stacks, main: Activity) -> Thread | None:
    if not main.waits_for_ranks:
        return None
    running = (thread for thread in _others(stacks) if runs_call(stacks.stack(thread)))
    return next((thread for thread in running if not activity_of_thread(stacks, thread).waits_for_ranks), None)


def _for_child(view: RankView) -> Thread | None:
    """Return the thread that waits for a child process which waits for other ranks in turn."""
    if view.stacks is None or not waits_by_child(view.looks[-1].children):
        return None
    others = ((activity_of_thread(view.stacks, thread), thread) for thread in _others(view.stacks))
    return next((thread for doing, thread in others if WaitsOn.CHILD in doing.waits_on), None)


def _stack(view: RankView, thread: Thread) -> _Stack:
    return () if view.stacks is None else view.stacks.stack(thread)


def _that_began_alike(stacks: Stacks | None, begun: Iterable[_Stack]) -> Thread | None:
    """Return the thread that has the most outer frames in common with one of those; none where two have as many."""
    if stacks is None:
        return None
    shared = [(max(_shared(stacks.stack(thread), other) for other in begun), thread) for thread in _others(stacks)]
    most = max((count for count, _ in shared), default=0)
    best = [thread for count, thread in shared if count == most]
    return best[0] if most and len(best) == 1 else None


def _shared(frames: _Stack, other: _Stack) -> int:
    """Count outer frames of the same functions; 0 where they are all of the standard library."""
    pairs = takewhile(lambda pair: pair[0][:2] == pair[1][:2], zip(frames, other, strict=False))
    common = [frame for frame, _ in pairs]
    return 0 if all(is_standard_frame(frame) for frame in common) else len(common)
