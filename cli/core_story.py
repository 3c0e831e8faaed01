"""The likely story of a core file: what its signal means there, and where its threads were, by step 8's tables."""

import re
from typing import NamedTuple

from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import Activity, activity_of
from shared.answer.words import Cause
from shared.missing import Missing, Reason
from shared.wire.debug_output import CoreReport
from shared.wire.snapshot import Identity, RankSnapshot
from shared.wire.stacks import Frame, Stacks, Thread

_UNSEEN = Missing(source="core", reason=Reason.NOT_FOUND)


class _Ending(NamedTuple):
    """A signal together with a frame of the thread that got it, and what they mean."""

    signals: frozenset[str]
    frame: re.Pattern[str]
    cause: Cause
    story: str


def _ending(signals: str, frame: str, cause: Cause, story: str) -> _Ending:
    return _Ending(frozenset(signals.split()), re.compile(frame), cause, story)


_ENDINGS: tuple[_Ending, ...] = (
    # c10d::ProcessGroupNCCL::ncclCommWatchdog () from libtorch_cuda.so; c10d::ProcessGroupNCCL::heartbeatMonitor
    _ending(
        "SIGABRT",
        r"c10d::ProcessGroup\w+::.*([Ww]atchdog|heartbeatMonitor|HeartbeatMonitor|Heartbeat)",
        Cause.COMMUNICATION,
        "PyTorch's watchdog ended it: a collective failed or timed out; the fault is in a rank that did not join",
    ),
    # __assert_fail (libc.so.6); __GI___assert_fail
    _ending("SIGABRT", r"__assert_fail", Cause.EXCEPTION, "an assertion in native code failed"),
    # std::terminate() () from libstdc++.so.6; __cxxabiv1::__terminate
    _ending("SIGABRT", r"(std::terminate|__cxxabiv1::__terminate)", Cause.EXCEPTION, "a C++ exception was not caught"),
    # malloc_printerr (libc.so.6); __libc_message
    _ending("SIGABRT", r"malloc_printerr|__libc_message", Cause.EXCEPTION, "native code corrupted the heap"),
    # fatal_error (Python/pylifecycle.c:2737); Py_FatalError
    _ending("SIGABRT", r"^(fatal_error\w*|_?Py_FatalError\w*)$", Cause.EXCEPTION, "Python aborted: a fatal error"),
    _ending("SIGABRT", r"", Cause.EXCEPTION, "it aborted (abort())"),
    _ending("SIGBUS", r"", Cause.OOM, "it read or wrote a mapped file that is shorter, or /dev/shm is full"),
    _ending("SIGSEGV", r"", Cause.EXCEPTION, "it accessed memory that it does not own"),
    _ending("SIGILL", r"", Cause.EXCEPTION, "it executed an instruction this CPU does not support"),
    _ending("SIGFPE", r"", Cause.EXCEPTION, "it divided by zero"),
    _ending("SIGQUIT SIGXCPU SIGXFSZ SIGSYS SIGTRAP", r"", Cause.SIGNAL, "a user or a resource limit ended it"),
)
"""Rows that stand further up win. Over each with a frame stands a real one, as gdb prints it."""


def tell_story(report: CoreReport) -> CoreReport:
    """Return the report with its story and cause."""
    here = _activity(report)
    where = (
        f"its main thread was {here.label}{_at(here)}{_inside(report)}"
        if here is not None
        else "its position is unknown"
    )
    if report.signal is None:
        cause = Cause.UNKNOWN if here is None else here.cause
        return _told(report, f"taken from a running process; {where}", cause)
    frames = _dead_frames(report)
    row = next((row for row in _ENDINGS if report.signal_name in row.signals and _fits(row, frames)), None)
    what = "a signal ended it" if row is None else row.story
    died_in = f", in {frames[-1]}" if frames else ""
    thread = "" if report.thread in (None, report.pid) else f" (thread {report.thread})"
    story = f"{report.signal_name}: {what}{died_in}{thread}; {where}"
    return _told(report, story, Cause.SIGNAL if row is None else row.cause)


def _told(report: CoreReport, story: str, cause: Cause) -> CoreReport:
    return report.model_copy(update={"story": story, "cause": cause.value})


def _fits(row: _Ending, frames: tuple[Frame, ...]) -> bool:
    return not row.frame.pattern or any(row.frame.search(frame.function) for frame in frames)


def _dead_frames(report: CoreReport) -> tuple[Frame, ...]:
    """Return the native stack of the thread that got the signal, outermost first."""
    if not isinstance(report.native, Stacks):
        return ()
    return next((report.native.stack(t) for t in report.native.threads if t.tid == report.thread), ())


def _activity(report: CoreReport) -> Activity | None:
    """Return what the main thread was doing, as of a rank whose stacks were read."""
    stacks = tuple(part for part in (report.python, report.native) if isinstance(part, Stacks) and _has_main(part))
    if not stacks:
        return None
    looks = tuple(_look(part.model_copy(update={"native": part is report.native})) for part in stacks)
    activity = activity_of(RankView(0, Presence.RECORDED, looks))
    return activity if activity.frames else None


def _has_main(stacks: Stacks) -> bool:
    main: Thread | None = stacks.main
    return main is not None and bool(main.frames)


def _look(stacks: Stacks) -> RankSnapshot:
    identity = Identity(rank=0, pid=stacks.pid)
    return RankSnapshot(identity=identity, process=_UNSEEN, stacks=stacks, fds=_UNSEEN, logs=_UNSEEN, recorder=_UNSEEN)


def _at(activity: Activity) -> str:
    frame = activity.user or activity.frames[-1]
    return f" at {frame}"


def _inside(report: CoreReport) -> str:
    """Name the native function that the main thread was in."""
    if not isinstance(report.native, Stacks) or report.native.main is None:
        return ""
    frames = report.native.stack(report.native.main)
    return f", in {frames[-1].function}" if frames else ""
