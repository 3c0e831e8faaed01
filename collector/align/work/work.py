"""Does a rank that others wait for demonstrably work, and with what? The one place that says so.

Between two looks at it:

1. Who is stopped or traced, or waits for other ranks or its device, does no work, whatever it burns meanwhile: Gloo,
   NCCL and CUDA poll. Nor does who polls a lock file.
2. Who sleeps does what comes after the sleep. A retry does so soon, `sleep(86400)` does not: whoever asks decides by
   the time that is left. Nothing else counts for it, for it comes to nothing before the sleep is over; but where that
   is a moment, as in a loop that writes or asks.
3. What a child does is the rank's work where it waits for a child, or for anything in its own process: one that sleeps,
   too, as by rule 2.
4. Bytes of a file that it has open, of a connection or of a pipe; not those of its own log, nor of connections to the
   store or to other ranks. Who waits for a child, a pipe or a peer need not have moved any between the last two looks:
   what comes slowly comes in between.
5. CPU time of the thread that stands for the rank counts in the frame where that stands; that of other threads where
   the first waits for one of its own process. One that is on the queue for a CPU in two looks works, whatever it gets.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise

from collector.align.progress import runnable
from collector.align.roster import HELD, RankView
from collector.align.stacks.activity import Activity, activity_of_thread, place
from collector.align.stacks.tables.row_types import Doing, Told, WaitsOn
from collector.align.thresholds import BUSY_BYTES, BUSY_CPU_SHARE, MOMENT_SECONDS, OTHERS_CPU_SHARE
from collector.align.work.beats import Between, between, between_of_child, within
from collector.align.work.carried import of_bytes, syscall_of
from collector.align.work.children import asleep_below, named, pipe_holders
from collector.align.work.values import Ends, Work
from shared.answer.words import Cause, WorkMeans
from shared.units import bytes_in_words, seconds_in_words
from shared.wire.snapshot import RankSnapshot, Syscall
from shared.wire.stacks import Stacks

_WITHIN = frozenset({"futex", "running"})
"""System calls in which a thread waits for nothing beyond its own process, or runs."""
_WAITS_FOR_CHILD = frozenset({"wait4", "waitid"})
_MOST_THREADS = 64


def works_of(view: RankView, activity: Activity, connections: Set[Ends] = frozenset()) -> tuple[Work, ...]:
    """Return what a rank was seen at work with, most telling first; empty: it was not.

    `connections`: those of the job's ranks, as far as they are known.
    """
    if not _may_work(view, activity):
        return ()
    asleep = _asleep(view, activity)
    if asleep is not None and asleep.amount > MOMENT_SECONDS:
        return (asleep,)
    moment = () if asleep is None else (asleep,)
    last = view.looks[-1] if view.looks else None
    waits = last is not None and (_waits_for_child(activity, syscall_of(last)) or activity.cause is Cause.NETWORK)
    newest = True
    for a, b in reversed(tuple(pairwise(view.looks))):
        counters = between(a.process, b.process)
        if counters is None or not (newest or waits):
            continue
        inside = bool(moment) or _waits_within(activity, syscall_of(b))
        least = BUSY_CPU_SHARE if _waits_for_child(activity, syscall_of(b)) else OTHERS_CPU_SHARE
        found = [*(_children(a, b, counters, least) if inside else ())]
        found += of_bytes(a, b, activity, counters, connections, plainly=bool(found))
        if newest:
            looks = (each for look in (a, b) if (each := within(look.process)) is not None)
            found += _cpu(view, activity, (counters, *looks), inside=inside)
        if found:
            return (*found, *moment)
        newest = False
    if newest and not moment and (found := list(_in_one_look(view, activity, connections))):
        return tuple(found)
    return moment or (() if last is None or not waits else tuple(asleep_below(last)))


def _in_one_look(view: RankView, activity: Activity, connections: Set[Ends]) -> Iterator[Work]:
    """What it was at work with during the newest look that took long enough to tell, where no two can be compared."""
    for look in reversed(view.looks):
        counters = within(look.process)
        if counters is not None:
            yield from of_bytes(look, look, activity, counters, connections)
            yield from _cpu(view, activity, (counters,), inside=_waits_within(activity, syscall_of(look)))
            return


def works_of_children(view: RankView) -> tuple[Work, ...]:
    """Return what the processes work at that a rank has started, whatever it does itself: they may become ranks."""
    for a, b in reversed(tuple(pairwise(view.looks))):
        counters = between(a.process, b.process)
        if counters is not None:
            return tuple(_children(a, b, counters, BUSY_CPU_SHARE))
    return ()


def _may_work(view: RankView, activity: Activity) -> bool:
    """Rule 1."""
    if view.gone or view.presence in HELD or activity.cause in (Cause.SIGNAL, Cause.DEBUGGER):
        return False
    if activity.waits_for_ranks or activity.doing is Doing.DEVICE or activity.may_be_idle:
        return False
    return not activity.waits_on & {WaitsOn.LOCK_FILE, WaitsOn.DATABASE}


def _asleep(view: RankView, activity: Activity) -> Work | None:
    """Rule 2. Of another thread than the main one nobody knows how long it sleeps."""
    process = view.process
    left = None if process is None or process.syscall is None else process.syscall.ends_in_seconds
    home = bool(activity.waits_on & {WaitsOn.OWN_THREAD, WaitsOn.OTHER_PROCESS}) or activity.asks_by_threads
    inside = (home and not _by_event(activity)) or _in_queue(activity)
    if left is None or view.apart is not None or inside:
        return None
    where = _at(activity)
    sleeps = f"sleeps for {seconds_in_words(left)} more" if left > MOMENT_SECONDS else "sleeps for moments"
    what = f"{sleeps}{where and f' at {where}'}"
    return Work(WorkMeans.SLEEP, what, where, 0.0, left)


def _by_event(activity: Activity) -> bool:
    """Does the user's own code wait for an event, for as long as it says? In a queue or a pool nobody sleeps."""
    caller, *inside = activity.frames[-3:] or (None,)
    return len(inside) == 2 and caller == activity.user and all(each.file.endswith("/threading.py") for each in inside)


def _in_queue(activity: Activity) -> bool:
    """Does it ask a queue for the next item, for so long each time, as a DataLoader that pins memory does?"""
    return [frame.file.rpartition("/")[2] for frame in activity.frames[-2:]] == ["queue.py", "threading.py"]


def _at(activity: Activity) -> str:
    """Where its code is: the user's frame, else the innermost one."""
    frame = activity.user or (activity.frames[-1] if activity.frames else None)
    return "" if frame is None else str(place(frame))


def _waits_within(activity: Activity, syscall: Syscall | None) -> bool:
    """Does it wait for something in its own process, or for a child, such as the one that writes into its pipe?"""
    inside = syscall is None or syscall.name in _WITHIN or WaitsOn.OWN_THREAD in activity.waits_on
    return inside or _waits_for_child(activity, syscall)


def _waits_for_child(activity: Activity, syscall: Syscall | None) -> bool:
    """Does it wait for a child, such as the one that writes into its pipe?"""
    if WaitsOn.CHILD in activity.waits_on or activity.cause is Cause.DATALOADER:
        return True
    return syscall is not None and (syscall.name in _WAITS_FOR_CHILD or (syscall.target or "").startswith("pipe:"))


def _children(a: RankSnapshot, b: RankSnapshot, counters: Between, least: float) -> Iterator[Work]:
    """Rule 3. A child that has ended since, as compilers do, is found with who waited for it."""
    later = {child.process.pid: child.process for child in b.children}
    both = [(child.process, between_of_child(child.process, later.get(child.process.pid))) for child in a.children]
    told = [(process, beats) for process, beats in both if beats is not None]
    at_work = [(beats.cpu, process) for process, beats in told if beats.is_much(beats.cpu, least)]
    if at_work:
        most = max(at_work, key=lambda each: (each[0], -each[1].pid))[1]
        share, who = sum(cpu for cpu, _ in at_work), named(most)
        which = (
            f"its child {who}, which uses"
            if len(at_work) == 1
            else f"{len(at_work)} children, such as {who}, which use"
        )
        yield Work(WorkMeans.CHILD, f"waits for {which} {share:.0%} of a CPU", who, counters.seconds, share)
        return
    at_pipe = pipe_holders(b)
    for process, beats in told:
        if beats.moved > (0 if process.pid in at_pipe else BUSY_BYTES):
            rate, who = beats.moved / beats.seconds, named(process)
            what = f"waits for its child {who}, which reads and writes {bytes_in_words(rate)}/s"
            yield Work(WorkMeans.CHILD, what, who, beats.seconds, rate)
            return
    if counters.is_much(counters.children_cpu, least):
        what = f"waits for processes that it starts, which use {counters.children_cpu:.0%} of a CPU"
        yield Work(WorkMeans.CHILD, what, "", counters.seconds, counters.children_cpu)


def _cpu(view: RankView, activity: Activity, seen: Sequence[Between], *, inside: bool) -> Iterator[Work]:
    """Rule 5. `seen`: what happened between the looks, and during those that took long."""
    shares = ((each, _of_thread(view, each)) for each in seen)
    counters, main = next((both for both in shares if both[0].is_much(both[1])), (seen[0], 0.0))
    where = _at(activity)
    runs = runnable(view) and view.apart is None
    whole = between(view.looks[0].process, view.looks[-1].process) if runs and not main else None
    if whole is not None and whole.seconds > counters.seconds:  # the last look may have come right after another
        share = _of_thread(view, whole)
        counters, main = whole, share if whole.is_much(share) else 0.0
    if main or runs:
        on = " on one line that calls nothing," if calls_nothing(view, activity) else ""
        used = f"uses {main:.0%} of a CPU" if main else f"wants a CPU and gets {_of_thread(view, counters):.0%} of one"
        yield Work(WorkMeans.CPU, f"{used}{on}{where and f' at {where}'}", where, counters.seconds, main)
        return
    others = counters.cpu - _of_thread(view, counters)
    if not inside or not counters.is_much(others, OTHERS_CPU_SHARE):
        return
    threads = _other_threads(view)
    at_work = [thread for thread in threads if not thread.waits_for_ranks]
    if at_work or not threads:
        where = _at(at_work[0]) if at_work else ""
        what = f"waits for a thread of its own{where and f' at {where}'}; its threads use {others:.0%} of a CPU"
        yield Work(WorkMeans.CPU, what, where, counters.seconds, others)


def _of_thread(view: RankView, counters: Between) -> float:
    """CPU seconds a second of the thread that stands for a rank."""
    return counters.cpu if view.apart is not None or counters.main_cpu is None else counters.main_cpu


def _other_threads(view: RankView) -> list[Activity]:
    """Return what other threads of Python are at that were on a CPU when they were read, else those in user code.

    Native ones are not seen.
    """
    stacks = view.stacks
    if stacks is None:
        return []
    others = [thread for thread in stacks.threads if thread is not stacks.main][:_MOST_THREADS]
    running = [activity_of_thread(stacks, thread) for thread in others if thread.active]
    seen = (activity_of_thread(stacks, thread) for thread in others)
    return running or [thread for thread in seen if thread.told is Told.IN_USER_CODE]


def calls_nothing(view: RankView, activity: Activity) -> bool:
    """Has it stood on one line in every look, with nothing called from there, in C neither?"""
    native = view.native_stacks
    if native is None or native.main is None or activity.user is None or activity.frames[-1] != activity.user:
        return False
    innermost = native.stack(native.main)[-1:]
    both = ((look.stacks, view.thread_in(look.stacks)) for look in view.looks if isinstance(look.stacks, Stacks))
    seen = {stacks.stack(thread)[-1:] for stacks, thread in both if thread is not None and not stacks.native}
    return len(seen) == 1 and bool(innermost) and not innermost[0].native
