"""What a thread burns counts for the place where it stands: in a wait it is no work, whoever burns it.

CUDA's synchronisation spins on the processor by default. NCCL's main thread polls with `usleep(1)` while a communicator
is made, and its proxies, which have no names of their own, spin over a network. So between two looks that show a rank's
thread at one place, and that place is a wait:

1. for the device, or for other ranks by NCCL: CPU time of no thread counts;
2. for other ranks by NCCL, and a look at that place found it in a short sleep or inside NCCL: nor does it count that it
   wakes. Stack and system call are not read at one instant: elsewhere the sleep may be that of a step before the wait.

Gloo's own threads use CPU time when data is on its way, and for nothing else: theirs counts. In a backward pass threads
of its own compute.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from collector.align.roster import RankView
from collector.align.stacks.activity import OF_RPC, Activity, runs_call
from collector.align.stacks.tables.row_types import Doing
from collector.align.work.beats import often
from shared.wire.snapshot import Fds, Process, RankSnapshot
from shared.wire.stacks import Frame, Stacks

_NCCL_THREAD = "pt_nccl_watchdg"
_SHORT_SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
_ACCELERATOR = re.compile(r"^/dev/(nvidia\d|kfd|dri/render|accel|davinci\d|habana)")
"""/dev/nvidia0, /dev/kfd, /dev/dri/renderD128, /dev/accel/accel0, /dev/davinci0."""
# ?? (libnccl.so.2.27.5)
_NCCL = re.compile(r"(^|/)lib[nr]ccl\.so")
# ncclCommInitRankConfig (libtorch_cuda.so), where NCCL is linked into it
_JOINS = re.compile(r"^p?ncclComm(Init|Split|Shrink|Grow)")
BACKWARD = "_engine_run_backward"


class Polling(NamedTuple):
    """What of a rank's counters is no sign of work between two looks."""

    cpu: bool = False
    wakes: bool = False


NOTHING = Polling()


def polling(view: RankView, activity: Activity | None, a: RankSnapshot, b: RankSnapshot) -> Polling:
    """Return what does not count. `activity` is what the rank is doing, by all of its looks."""
    if activity is None or not (activity.waits_for_ranks or activity.doing is Doing.DEVICE):
        return NOTHING
    here = _python(activity.frames)
    if not here or any(_place(view, look) != here for look in (a, b)):
        return NOTHING
    asks = _in_nccl(view) or (on_nccl(b) and _sleeps_at(here, view))
    sleeps = activity.waits_for_ranks and view.apart is None and asks
    if here[-1].function == BACKWARD:
        return Polling(wakes=sleeps)
    return Polling(cpu=activity.doing is Doing.DEVICE or sleeps or on_nccl(b), wakes=sleeps)


def _python(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if not frame.native)


def _place(view: RankView, look: RankSnapshot) -> tuple[Frame, ...]:
    if not isinstance(look.stacks, Stacks):
        return ()
    thread = view.thread_in(look.stacks)
    return () if thread is None or thread.moves else _python(look.stacks.stack(thread))


def in_remote_call(activity: Activity) -> bool:
    """Does a rank run a remote call, or wait in one, or for the end of all? There nothing polls."""
    return activity.runs_call or (activity.waits_for_ranks and any(OF_RPC in frame.file for frame in activity.frames))


def serves_on(a: RankSnapshot, b: RankSnapshot) -> bool:
    """Do other threads run remote calls than before, or has one of them woken? A call that hangs sleeps in its own."""
    if not isinstance(a.stacks, Stacks) or not isinstance(b.stacks, Stacks):
        return False
    before, after = (_serving(stacks) for stacks in (a.stacks, b.stacks))
    first, last = ({thread.tid: thread.switches for thread in stacks.threads} for stacks in (a.stacks, b.stacks))
    woke = any(often(first.get(tid), last.get(tid), 0.0) for tid in before | after)
    return woke or (bool(before) and not before <= after)


def serves(look: RankSnapshot) -> bool:
    """Did a thread that runs a remote call move while it was read?"""
    stacks = look.stacks
    if not isinstance(stacks, Stacks):
        return False
    return any(thread.moves and runs_call(stacks.stack(thread)) for thread in stacks.threads)


def _serving(stacks: Stacks) -> set[int]:
    return {thread.tid for thread in stacks.threads if thread.tid is not None and runs_call(stacks.stack(thread))}


def may_poll(view: RankView, activity: Activity) -> bool:
    """Has it stood at one place in every look, waiting for others by NCCL? Its native frames tell whether it polls."""
    waits = activity.waits_for_ranks and bool(view.looks) and on_nccl(view.looks[-1])
    return waits and stands_at_one_place(view, activity)


def stands_at_one_place(view: RankView, activity: Activity) -> bool:
    """Was the thread that stands for a rank at one place of its program in every look?"""
    here = _python(activity.frames)
    return bool(here) and all(_place(view, look) == here for look in view.looks)


def _sleeps_at(here: tuple[Frame, ...], view: RankView) -> bool:
    return any(_in_short_sleep(look) and _place(view, look) == here for look in view.looks)


def _in_short_sleep(look: RankSnapshot) -> bool:
    syscall = look.process.syscall if isinstance(look.process, Process) else None
    return syscall is not None and syscall.name in _SHORT_SLEEPS


def _in_nccl(view: RankView) -> bool:
    native = view.native_stacks
    frames = () if native is None or native.main is None else native.stack(native.main)
    return any(_NCCL.search(frame.file) or _JOINS.search(frame.function) for frame in frames if frame.native)


def on_nccl(look: RankSnapshot) -> bool:
    """Has the rank process groups of NCCL's, or a device open?"""
    process: Mapping[str, int] = look.process.group_threads if isinstance(look.process, Process) else {}
    return _NCCL_THREAD in process or has_device(look)


def has_device(look: RankSnapshot) -> bool:
    """Has the rank an accelerator's device file open?"""
    return isinstance(look.fds, Fds) and any(map(_ACCELERATOR.match, look.fds.devices))
