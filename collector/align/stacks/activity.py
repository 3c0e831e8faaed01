"""Step 8 of the verdict: where a rank is now, and why, from its stacks, its kernel state and its children."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from collector.align.roster import Presence, RankView
from collector.align.stacks.awaited import wait_of
from collector.align.stacks.lock_files import lock_in_words, lock_of
from collector.align.stacks.process_text import NO_SYSCALL, is_held, process_in_words
from collector.align.stacks.seen_activity import NOT_SEEN as NOT_SEEN
from collector.align.stacks.seen_activity import Activity as Activity
from collector.align.stacks.seen_activity import place as place
from collector.align.stacks.seen_activity import with_awaited
from collector.align.stacks.tables.kernel_facts import AWAITS_ANY, FROZEN, kernel_pattern
from collector.align.stacks.tables.match_frames import frame_pattern, waits_for_work, waits_in, waits_in_shared
from collector.align.stacks.tables.row_types import (
    TELLS_OF_CALLERS,
    Doing,
    FramePattern,
    KernelPattern,
    Told,
    WaitsOn,
)
from collector.align.stacks.user_frames import is_user_frame, runs
from shared.answer.words import Cause
from shared.wire.snapshot import Child, PolledLock, Process
from shared.wire.stacks import Frame, Stacks, Thread

_PLAIN_LABELS = {
    (True, False): "in user code",
    (True, True): "running in user code",
    (False, False): "no Python frame",
    (False, True): "running, and in no two readings at one place",
}
"""By whether there are frames, and whether the thread moved while it was read."""
_RUNS_CALL, OF_RPC = "_run_function", "torch/distributed/rpc/"


def runs_call(stack: Sequence[Frame]) -> bool:
    """Does a thread with this stack run a remote procedure call of another rank's?"""
    return any(frame.function == _RUNS_CALL and OF_RPC in frame.file for frame in stack)


def activity_of(view: RankView) -> Activity:
    """Return what the rank is doing now. Never raises: what cannot be told is `Doing.UNKNOWN`."""
    return with_the_rest(from_stacks(view), view)


_HELD_BY = {Presence.STOPPED: "stopped by a signal", Presence.FROZEN: "frozen with its cgroup"}


def with_the_rest(seen: Activity, view: RankView) -> Activity:
    """Return what its stacks tell of a rank with what the kernel and its children tell."""
    seen = with_awaited(seen, wait_of(view))
    seen = _with_kernel(seen, _process_of(view))
    seen = _with_own_pipe(seen, view)
    seen = _with_servers(seen, view)
    seen = _with_children(seen, view.looks[-1].children if view.looks else ())
    seen = with_lock_file(seen, lock_of(view.looks[-1]) if view.looks else None)
    seen = _with_gil(seen)
    held = _HELD_BY.get(view.presence)
    return seen if held is None else replace(_placed(seen, held), cause=Cause.SIGNAL, kernel_agrees=True)


def _process_of(view: RankView) -> Process | None:
    """The kernel tells of the main thread; of another one only where it holds the whole process."""
    process = view.process
    return process if view.apart is None or (process is not None and process.state in "Tt") else None


def _placed(seen: Activity, label: str, *waits_on: WaitsOn) -> Activity:
    """The activity with a better word for where it is, and what that place waits for."""
    return replace(seen, label=label, told=Told.BY_PATTERN, waits_on=frozenset(waits_on))


def _placed_by(seen: Activity, row: FramePattern | KernelPattern) -> Activity:
    return _placed(seen, row.label, *(() if row.waits_on is None else (row.waits_on,)))


def from_stacks(view: RankView) -> Activity:
    """Return what a rank is doing by its stacks alone: by the thread that stands for it, or one that keeps the GIL."""
    stacks = view.stacks
    if stacks is None:
        return NOT_SEEN
    native = view.native_stacks if view.apart is None else None
    seen = _thread_activity(stacks, view.thread_in(stacks), native)
    if seen.waits_for_ranks or not seen.frames:
        return seen
    keeper = next((thread for thread in stacks.threads if thread is not stacks.main and _keeps_gil(thread)), None)
    return _at_home(seen) if keeper is None else _thread_activity(stacks, keeper, None)


def _at_home(seen: Activity) -> Activity:
    """A thread that waits for something in its own process: another thread that works, or work that may never come."""
    if not seen.is_plain or not seen.frames:
        return seen
    if any(waits_for_work(frame.function, frame.file) for frame in _called(seen)):
        return replace(_placed(seen, "waiting for work"), may_pass=True, may_be_idle=True)
    if waits_in_shared(seen.frames[-1].file):
        label = "waiting for another process, by multiprocessing"
        return replace(_placed(seen, label, WaitsOn.OTHER_PROCESS), may_pass=True)
    if waits_for_thread(seen):
        return replace(_placed(seen, "waiting for a thread of its own", WaitsOn.OWN_THREAD), may_pass=True)
    return seen


def waits_for_thread(seen: Activity) -> bool:
    """Is it where another thread of its own process lets it go? Without frames of Python any lock looks so."""
    if seen.frames and all(frame.native for frame in seen.frames):
        return WaitsOn.LOCK in seen.waits_on
    return bool(seen.frames) and waits_in(seen.frames[-1].file)


def activity_of_thread(stacks: Stacks, thread: Thread | None) -> Activity:
    """Return what any one thread is doing, by its Python frames alone."""
    return _at_home(_thread_activity(stacks, thread, None))


def other_activities(stacks: Stacks | None) -> Iterator[Activity]:
    """Iterate over what those threads of a process do that are not its main one."""
    if stacks is not None:
        yield from (activity_of_thread(stacks, thread) for thread in stacks.threads if thread is not stacks.main)


def _called(seen: Activity) -> tuple[Frame, ...]:
    """The frames below the user's innermost one, innermost first; all where none is the user's."""
    return tuple(takewhile(lambda frame: frame != seen.user, reversed(seen.frames)))


def _thread_activity(stacks: Stacks, thread: Thread | None, native: Stacks | None) -> Activity:
    if thread is None:
        return NOT_SEEN
    frames = stacks.stack(thread)
    base = Activity(
        doing=Doing.UNKNOWN if all(frame.native for frame in frames) else Doing.OUTSIDE,
        cause=Cause.USER_CODE if frames else Cause.UNKNOWN,
        label=_PLAIN_LABELS[bool(frames), thread.moves],
        told=Told.IN_USER_CODE if frames else Told.NOT_SEEN,
        thread=thread.name or ("main" if thread is stacks.main else str(thread.tid)),
        frames=frames,
        user=next((frame for frame in reversed(frames) if is_user_frame(frame)), None),
        runs_call=runs_call(frames),
        keeps_gil=_keeps_gil(thread),
    )
    return _with_native(_classified(base, frames), native)


def _keeps_gil(thread: Thread) -> bool:
    return thread.holds_gil is True and thread.active is False


def _with_gil(seen: Activity) -> Activity:
    """That a sleeper keeps the GIL is its cause only where nothing but a signal tells what it sleeps in.

    Python's own waits for signals let go of it: one that does not is no wait for what others send.
    """
    if not seen.keeps_gil or seen.doing is not Doing.OUTSIDE:
        return seen
    by_signal = WaitsOn.SIGNAL in seen.waits_on
    if by_signal or (seen.is_plain and not seen.kernel_tells):
        may_pass = seen.may_pass and not by_signal
        return replace(_placed(seen, "asleep and holding the GIL"), cause=Cause.GIL, may_pass=may_pass)
    return _placed(seen, f"{seen.label} without releasing the GIL", *seen.waits_on)


def _classified(base: Activity, frames: tuple[Frame, ...]) -> Activity:
    """A library below the user's innermost frame is what it called; one above called the user, who may do anything."""
    called = len(frames) if base.user is None else len(_called(base)) + 1
    for depth, frame in enumerate(reversed(frames)):
        row = frame_pattern(frame.function, frame.file, native=frame.native)
        if row is not None and (depth < called or row.cause in TELLS_OF_CALLERS):
            op = frame.function.rpartition(".")[2].lstrip("_") if row.doing in (Doing.COLLECTIVE, Doing.P2P) else None
            return replace(_placed_by(base, row), doing=row.doing, cause=row.cause, op=op, may_pass=row.may_pass)
    if not frames or frames[-1] == base.user:
        return base
    cause = Cause.UNKNOWN if base.user is None else base.cause
    return replace(base, cause=cause, label="in library code", told=Told.IN_LIBRARY, may_pass=True)


def _with_native(told: Activity, native: Stacks | None) -> Activity:
    """A work handle's wait, or a lock inside C, leaves no Python frame: the native stack tells it."""
    if native is None or native.main is None or told.doing not in (Doing.OUTSIDE, Doing.WORK):
        return told
    told = replace(told, c_read=True)
    innermost = takewhile(lambda frame: frame.native, reversed(native.stack(native.main)))
    rows = [row for frame in innermost if (row := frame_pattern(frame.function, frame.file, native=True)) is not None]
    if told.doing is Doing.WORK:  # what Python's own lock is waited for there, the Python frames have told
        rows = [row for row in rows if row.waits_on is not WaitsOn.LOCK]
    if not rows:
        return told
    row = next((row for row in rows if row.doing in (Doing.P2P, Doing.STORE)), rows[0])  # these wrap the plainer ones
    may_pass = told.may_pass or row.may_pass
    return replace(_placed_by(told, row), doing=row.doing, cause=row.cause, may_pass=may_pass)


def _with_kernel(seen: Activity, process: Process | None) -> Activity:
    if process is None:
        return seen
    syscall = process.syscall
    name, target = ("", "") if syscall is None else (syscall.name, syscall.target or "")
    said = replace(seen, process=process_in_words(process))
    row = kernel_pattern(name, target, FROZEN if process.frozen_by else process.wchan or "")
    if row is not None and (row.cause is Cause.SIGNAL or seen.doing in (Doing.OUTSIDE, Doing.UNKNOWN)):
        return _by_row(said, row)
    if process.state == "t" and process.tracer_pid and seen.doing in (Doing.OUTSIDE, Doing.UNKNOWN):
        label = f"held by a debugger (pid {process.tracer_pid})"
        held = replace(_placed(said, label), doing=Doing.OUTSIDE, cause=Cause.DEBUGGER, may_pass=False)
        return replace(held, may_be_idle=False, kernel_agrees=True, kernel_tells=True)
    if process.state == "D" and seen.doing in (Doing.OUTSIDE, Doing.UNKNOWN):
        return _held_by_kernel(said)
    agrees = seen.doing is Doing.OUTSIDE and name not in ("", "futex") and process.state in "SRD"
    sleeps = "nanosleep" in name or (name in NO_SYSCALL and "nanosleep" in (process.wchan or ""))
    asleep = agrees and sleeps and seen.is_plain
    if asleep and seen.told is Told.IN_USER_CODE:
        said = _placed(said, "asleep in user code")
    serves = any(at.kind == "clients" for at in process.awaits)
    if agrees and seen.is_plain and (serves or name in AWAITS_ANY):  # what it waits for comes from elsewhere
        label = "waiting for clients" if serves else "waiting for a descriptor to become ready"
        said = replace(_placed(said, label), may_pass=True, may_be_idle=serves)
    return replace(said, kernel_agrees=agrees, kernel_tells=asleep)


def _by_row(seen: Activity, row: KernelPattern) -> Activity:
    """What the kernel tells of a thread whose stack does not show it waiting for other ranks."""
    if seen.may_be_idle and row.cause in (Cause.PIPE_BLOCKED, Cause.NETWORK):
        return replace(seen, kernel_agrees=True)
    open_cause = seen.cause in (Cause.USER_CODE, Cause.UNKNOWN) or row.cause is Cause.SIGNAL
    cause = row.cause if open_cause else seen.cause
    placed = _placed_by(seen, row)
    if not (open_cause and (seen.is_plain or seen.told is Told.NOT_SEEN)):
        both = ", ".join(dict.fromkeys((seen.label, row.label)))
        placed = _placed(seen, both, *seen.waits_on, *placed.waits_on)
    told = replace(placed, doing=row.doing, cause=cause, may_pass=row.may_pass)
    return replace(told, may_be_idle=False, kernel_agrees=True, kernel_tells=True)


def _held_by_kernel(seen: Activity) -> Activity:
    """In state D, and no row tells for what: no wait for other ranks looks so."""
    held = replace(seen, doing=Doing.OUTSIDE, may_pass=True, may_be_idle=False, kernel_agrees=True)
    if seen.cause not in (Cause.USER_CODE, Cause.UNKNOWN):
        return held
    return replace(_placed(held, "in uninterruptible sleep in the kernel"), cause=Cause.UNKNOWN, kernel_tells=True)


def _with_servers(seen: Activity, view: RankView) -> Activity:
    """A process whose main thread waits for a signal may serve by its others: these wait for clients, or for work."""
    if WaitsOn.SIGNAL not in seen.waits_on or view.apart is not None:
        return seen
    return replace(seen, may_be_idle=True) if any(each.may_be_idle for each in other_activities(view.stacks)) else seen


def _with_own_pipe(seen: Activity, view: RankView) -> Activity:
    """What only its own process could write, in which Python runs no other thread, does not come.

    Whether a child of another user holds that end, too, cannot be seen.
    """
    process, threads = _process_of(view), () if view.stacks is None else view.stacks.threads
    childless = not any(look.children for look in view.looks[-1:])
    alone = seen.cause is Cause.PIPE_BLOCKED and len(threads) == 1 and childless
    own = process is not None and any(at.own and not at.holders for at in process.awaits)
    return replace(seen, may_pass=False) if alone and own else seen


def _with_children(seen: Activity, children: tuple[Child, ...]) -> Activity:
    """When a rank waits for its DataLoader or a child process, say where the child is that does not deliver."""
    if seen.cause is not Cause.DATALOADER and WaitsOn.CHILD not in seen.waits_on:
        return seen
    blocked = blocked_children(children)
    if not blocked:
        unread = any(not isinstance(child.stacks, Stacks) for child in children)
        return replace(seen, may_pass=seen.may_pass or unread)
    child, doing = min(blocked, key=_tells_little)
    at = f" at {place(doing.user)}" if doing.user is not None else ""
    text = f"child {child.process.pid} ({child.process.name}) is {doing.label}{at}: {doing.process}"
    told = replace(seen, child=text, kernel_agrees=True, may_pass=doing.may_pass)
    return replace(told, doing=doing.doing, cause=doing.cause, op=doing.op) if doing.waits_for_ranks else told


def waits_by_child(children: Iterable[Child]) -> bool:
    """Does a process that works for the rank wait for those of other ranks?"""
    return any(doing.waits_for_ranks for _, doing in blocked_children(children))


def blocked_children(children: Iterable[Child]) -> list[tuple[Child, Activity]]:
    """Return those that are not idle, with what they do."""
    return [(child, doing) for child in children if (doing := _child_activity(child)) is not None]


def _tells_little(told: tuple[Child, Activity]) -> tuple[bool, bool, bool, bool, int]:
    """Of several children one that is held is first, then who waits for other ranks, loads a batch, is in user code."""
    child, doing = told
    apart = doing.user is None, child.process.pid
    return not is_held(child.process), not doing.waits_for_ranks, not runs(doing.frames, "_worker_loop"), *apart


def with_lock_file(seen: Activity, lock: PolledLock | None) -> Activity:
    """When a rank waits for a lock, say which one and who holds it. Of an abandoned one nobody will let go."""
    waits = WaitsOn.LOCK_FILE in seen.waits_on or WaitsOn.DATABASE in seen.waits_on
    if not waits or lock is None:
        return seen
    placed = _placed(seen, f"waiting for {lock_in_words(lock)}", *seen.waits_on, WaitsOn.LOCK_FILE)
    known = lock.abandoned or bool(lock.holders)
    may_pass = seen.may_pass and not lock.abandoned
    return replace(placed, may_pass=may_pass, kernel_agrees=known or seen.kernel_agrees)


def _child_activity(child: Child) -> Activity | None:
    """What a child is blocked in; None for an idle worker that merely waits for its next task."""
    if not isinstance(child.stacks, Stacks):
        base = Activity(Doing.UNKNOWN, Cause.UNKNOWN, "not readable", told=Told.NOT_SEEN)
        return _with_kernel(base, child.process) if child.process.state in "Dt" or is_held(child.process) else None
    seen = _with_kernel(_at_home(_thread_activity(child.stacks, child.stacks.main, None)), child.process)
    if is_held(child.process) and runs(seen.frames, "_worker_loop"):
        how = _HELD_BY[Presence.STOPPED if child.process.frozen_by is None else Presence.FROZEN]
        return replace(_placed(seen, how), doing=Doing.OUTSIDE, cause=Cause.SIGNAL, may_pass=False)
    told = WaitsOn.OTHER_PROCESS in seen.waits_on and runs(seen.frames[-1:], "wait")
    idle = seen.may_be_idle or told or (runs(seen.frames, "_worker_loop") and not runs(seen.frames, "fetch"))
    return None if idle or not seen.frames else seen
