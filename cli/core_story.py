"""The likely story of a core file: what its signal means there, and where its threads were, by step 8's tables."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import Activity, activity_of
from shared.answer.words import Cause
from shared.missing import Missing, Reason
from shared.packs import read_tables
from shared.wire.debug_output import CoreReport
from shared.wire.snapshot import Identity, RankSnapshot
from shared.wire.stacks import Frame, Stacks, Thread

_UNSEEN = Missing(source="core", reason=Reason.NOT_FOUND)


class _Ending(NamedTuple):
    """Signals together with a frame of the thread that got one, and what they mean."""

    signals: str
    cause: str
    story: str
    frame: str = ""

    def fits(self, signal: str | None, frames: tuple[Frame, ...]) -> bool:
        """Is it this signal, and is the frame there?"""
        seen = not self.frame or any(re.search(self.frame, frame.function) for frame in frames)
        return signal in self.signals.split() and seen


def _endings() -> Iterator[_Ending]:
    rows = read_tables(__file__, "core_story.toml")["endings"]
    return (_Ending(**row) for row in rows)


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
    row = next((row for row in _endings() if row.fits(report.signal_name, frames)), None)
    what = "a signal ended it" if row is None else row.story
    died_in = f", in {frames[-1]}" if frames else ""
    thread = "" if report.thread in (None, report.pid) else f" (thread {report.thread})"
    story = f"{report.signal_name}: {what}{died_in}{thread}; {where}"
    return _told(report, story, Cause.SIGNAL if row is None else Cause(row.cause))


def _told(report: CoreReport, story: str, cause: Cause) -> CoreReport:
    return report.model_copy(update={"story": story, "cause": cause.value})


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
