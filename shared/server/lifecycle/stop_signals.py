"""Signals that end a service, from its first line until its server listens to them itself: none is lost in between.

A handler that raises KeyboardInterrupt will not do. Where that rises in a callback of a weak reference, or in a
destructor, Python prints it and goes on, and imports and collections of garbage run many of those. So the handlers here
note the signal, and the service looks at its note between the steps of its start. A step that takes long is broken off.
"""

import signal
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

_PATIENCE_SECONDS = 2.0
"""For the step that the service is at: then it is interrupted. Should Python drop that, the next step ends it."""


class StopSignals:
    """A context, for the main thread, within which SIGINT and SIGTERM are noted. Second ones interrupt at once."""

    def __init__(self, already: Sequence[int] = ()) -> None:
        """`already` have come before."""
        self._noted = list(already)
        self._before: dict[signal.Signals, Any] = {}
        self._timer_before: Any = None
        self._handed_over = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()

    def check(self) -> None:
        """End here if a signal has come, by what it did before: in the command line, raise KeyboardInterrupt."""
        if self._noted:
            self._deliver()

    def hand_over(self) -> bool:
        """Note that the server listens to signals by now; return whether one has come before."""
        self._handed_over = True
        self._stop_timer()
        return bool(self._noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.append(number)
        if self._handed_over:  # uvicorn raises again what it has received when it ends
            return
        if len(self._noted) > 1:
            self._deliver()
        elif self._timer_before is None:
            self._timer_before = signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._deliver()

    def _deliver(self) -> None:
        number = self._noted[0]
        self._restore()
        signal.raise_signal(number)
        raise KeyboardInterrupt  # where it is ignored, or its handler only takes note

    def _restore(self) -> None:
        self._stop_timer()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _stop_timer(self) -> None:
        if self._timer_before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._timer_before)
            self._timer_before = None
